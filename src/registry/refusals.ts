/** What a home of the registry refuses with, in the same words on every home. */
import { StoaError } from '../core/errors.js';

export function agentNotFound(agentId: string): StoaError {
  return new StoaError('not_found', `There is no agent ${agentId}.`);
}

export function agentExists(agentId: string): StoaError {
  return new StoaError('already_exists', `There is an agent ${agentId} already.`);
}

export function sessionNotFound(sessionId: string): StoaError {
  return new StoaError('not_found', `There is no session ${sessionId}.`);
}

export function sessionExists(sessionId: string): StoaError {
  return new StoaError('already_exists', `There is a session ${sessionId} already.`, {
    fix: 'A session does not reopen: open one with another id.',
  });
}

export function linkNotFound(identity: string): StoaError {
  return new StoaError('not_found', `There is no link of ${identity}.`);
}

export function identityTaken(identity: string): StoaError {
  return new StoaError('already_exists', `The identity ${identity} is linked to another agent.`, {
    fix: 'Unlink it there first.',
  });
}

/** An id of 64 hex digits can be the hash of a known user's id. It would give access to that user's records. */
export function secondSpelling(): StoaError {
  return new StoaError('conflict', 'This user id is another spelling of the id of a known user.', {
    fix: 'Use the id under which the user was first known.',
    details: { field: 'user' },
  });
}

export function leaseNumberDiffers(agentId: string, current: number, expected: number): StoaError {
  return new StoaError(
    'fenced',
    `The lease of the agent ${agentId} has the number ${current}, not ${expected}.`,
  );
}
