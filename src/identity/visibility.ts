/** Which changes of the feed a caller may see. */
import type { Change } from '../core/change.js';
import type { Caller } from '../core/caller.js';

export function canSee(caller: Caller, change: Change): boolean {
  if (caller.everyUser) return true;
  switch (change.audience ?? 'owner') {
    case 'public':
      return true;
    case 'recipient':
      return change.recipient !== undefined && change.recipient === caller.identity;
    case 'operator':
      return false;
    default:
      return change.user === caller.user && namespaceAllowed(caller, change) && recordAllowed(caller, change);
  }
}

/** An agent that signs for itself reaches its own record of the registry, not its user's other agents. */
function recordAllowed(caller: Caller, change: Change): boolean {
  if (caller.kind !== 'agent' || change.domain !== 'registry') return true;
  return (
    caller.agentId !== null && (change.id === caller.agentId || change.facts?.['agent'] === caller.agentId)
  );
}

function namespaceAllowed(caller: Caller, change: Change): boolean {
  const namespace = change.facts?.['namespace'];
  return (
    caller.scopes.namespaces === null ||
    change.domain !== 'data' ||
    caller.scopes.namespaces.includes(String(namespace))
  );
}
