/** Which records of the registry a caller can access. */
import { StoaError } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import { checkUserId } from '../identity/user-key.js';
import type { Limits } from '../core/settings/limits.js';
import type { UserScope } from './port.js';
import { agentNotFound } from './refusals.js';

/** A signed agent can access only its own record, not other agents of its user. */
export function requireUserWide(caller: Caller): void {
  if (caller.kind === 'agent')
    throw new StoaError(
      'forbidden',
      'The request is signed by an agent. An agent can only access its own record.',
      { fix: 'Use a token of the user who owns the agent.' },
    );
}

/** The user that a caller acts for, in the one spelling of its id. */
export function userOf(caller: Caller, limits: Limits): string {
  return checkUserId(caller.user, limits);
}

/** Where to look: in the records of one user, or of all users. */
export function userScopeOf(caller: Caller, limits: Limits): UserScope {
  return caller.everyUser ? null : userOf(caller, limits);
}

/** Where to look for an agent. For a signed agent, the records of other agents do not exist. */
export function scopeOf(caller: Caller, agentId: string, limits: Limits): UserScope {
  if (caller.kind === 'agent' && caller.agentId !== agentId) throw agentNotFound(agentId);
  return userScopeOf(caller, limits);
}

/** The user, in the one spelling of its id. For everybody but the operator, another user does not exist. */
export function reachUser(caller: Caller, user: string, limits: Limits): string {
  const id = checkUserId(user, limits);
  if (caller.kind !== 'operator' && id !== userOf(caller, limits)) throw userNotFound(id);
  return id;
}

export function userNotFound(user: string): StoaError {
  return new StoaError('not_found', `There is no user "${user}".`, {
    fix: 'Check the user id. A user is created by its first write.',
  });
}
