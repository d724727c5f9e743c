/** Whose records a caller can access, and in whose name it acts. */
import type { Caller } from '../core/caller.js';
import { StoaError } from '../core/errors.js';
import type { Owner, Reporter } from './port.js';

export function ownerOf(caller: Caller): Owner {
  return caller.everyUser ? null : caller.user;
}

export function checkWrites(caller: Caller): void {
  if (!caller.scopes.write)
    throw new StoaError('forbidden', 'These credentials can only read.', {
      fix: 'Use a token with the write scope.',
    });
}

/** The name under which the caller claims a task. */
export function holderOf(caller: Caller, named: string | undefined): string {
  checkOwnName(caller, named);
  return named ?? caller.agentId ?? caller.agent ?? caller.user;
}

/** A signed agent claims tasks and opens sessions only in its own name. It may leave the name out. */
export function checkOwnName({ kind, agentId, agent }: Caller, named: string | null | undefined): void {
  if (kind !== 'agent' || named === undefined || named === null || named === agentId || named === agent)
    return;
  throw new StoaError('forbidden', `agent_id is "${named}", but the request is signed by another agent.`, {
    fix: 'Leave out agent_id, or send the id of the agent that signs.',
    details: { field: 'agent_id' },
  });
}

/** Fencing numbers can be guessed, so a signed agent may only report on claims that it holds. */
export function reporterOf({ kind, agentId, agent }: Caller): Reporter {
  return kind === 'agent' ? [agentId, agent] : null;
}
