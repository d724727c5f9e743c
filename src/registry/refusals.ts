/** The errors of the registry, the same on every home. */
import { StoaError } from '../core/errors.js';
import { didYouMean } from '../core/text/nearest.js';

export function agentNotFound(agentId: string): StoaError {
  return new StoaError('not_found', `Unknown agent "${agentId}".`);
}

/** An agent by a name or id that the user does not have. */
export function unknownAgent(given: string, names: Iterable<string>): StoaError {
  return new StoaError(
    'not_found',
    `Unknown agent "${given.slice(0, 100)}".${didYouMean(given.slice(0, 100), names)}`,
    {
      fix: 'Use the name or the id of an agent of this user: list the agents. An agent is made by its first write.',
    },
  );
}

export function nameTaken(name: string, agentId: string): StoaError {
  return new StoaError('already_exists', `The user has an agent "${name}" already (${agentId}).`, {
    fix: `Use it as it is, change it with PATCH /v1/agents/${agentId}, or choose another name.`,
    details: { field: 'name', name, agent_id: agentId },
  });
}

/** The claims of an agent are held under its name. */
export function renameWhileHolding(name: string): StoaError {
  return new StoaError('conflict', `The agent "${name}" holds tasks, so it cannot be renamed.`, {
    fix: 'Complete, fail or release its tasks first.',
  });
}

export function agentIsPresent(name: string): StoaError {
  return new StoaError('conflict', `The agent "${name}" is present, so it cannot be forgotten.`, {
    fix: 'Stop it first, or wait until its presence ends.',
  });
}

export function agentExists(agentId: string): StoaError {
  return new StoaError('already_exists', `There is an agent ${agentId} already.`);
}

export function sessionNotFound(sessionId: string): StoaError {
  return new StoaError('not_found', `There is no session ${sessionId}.`);
}

export function sessionExists(sessionId: string): StoaError {
  return new StoaError('already_exists', `There is a session ${sessionId} already.`, {
    fix: 'A closed session cannot be opened again. Open a session with another id.',
  });
}

export function linkNotFound(identity: string): StoaError {
  return new StoaError('not_found', `The identity ${identity} is not linked to an agent.`);
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

/** For a caller with a fence whose agent no longer exists. */
export function fencedAgentDeleted(agentId: string, fence: number): StoaError {
  return new StoaError('fenced', `The agent ${agentId} was deleted, so fence ${fence} is no longer valid.`, {
    fix: 'Discard the work that was started under the lease of that agent.',
  });
}

export function agentSigns(agent: string): StoaError {
  return new StoaError(
    'forbidden',
    `The agent "${agent}" signs with its own key, so a token cannot act as this agent.`,
    {
      fix: 'Use another name (Stoa-Agent, --agent), or sign the request with the key of the agent.',
      details: { agent },
    },
  );
}
