/** Whose records a caller can access, and in whose name it acts. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Owner, Reporter } from './port.js';

export function ownerOf(caller: Caller): Owner {
  return caller.everyUser ? null : caller.user;
}

/** The name under which the caller claims tasks: its agent, or the user itself. */
export function holderOf({ agent, user }: Caller): string {
  return agent ?? user;
}

/** A signed agent opens sessions only in its own name. It may leave the name out. */
export function checkOwnName({ kind, agentId, agent }: Caller, named: string | null | undefined): void {
  if (kind !== 'agent' || named === undefined || named === null || named === agentId || named === agent)
    return;
  throw new StoaError('forbidden', `agent_id is "${named}", but the request is signed by another agent.`, {
    fix: 'Leave out agent_id, or send the id of the agent that signs.',
    details: { field: 'agent_id' },
  });
}

/** Only the holder reports on a claim. The operator, too, cancels a task or takes it over instead. */
export function reporterOf(caller: Caller): Reporter {
  return [holderOf(caller)];
}

/** A person answers, or another agent than the one that asked. */
export function answererOf({ agent }: Caller): Reporter {
  return agent === null ? null : [agent];
}
