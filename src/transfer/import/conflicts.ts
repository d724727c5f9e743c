/** The conflicts of an imported record with what is stored, in the same words on every home. */
import type { Conflict } from '../model.js';

export function orphan(what: string): Conflict {
  return { kind: 'orphan', detail: `${what} does not exist, or belongs to another user.` };
}

export function ofAnotherUser(id: string): Conflict {
  return nameTaken(`The id ${id} belongs to a record of another user.`);
}

export function roomNameTaken(owner: string | null, name: string): Conflict {
  return nameTaken(`The user ${owner ?? ''} has another room "${name}".`);
}

export function recordNameTaken(entity: 'workspace' | 'project', name: string, id: string): Conflict {
  return nameTaken(`The name "${name}" is taken by the ${entity} ${id}.`);
}

export function slotTaken(sessionId: string): Conflict {
  return nameTaken(`The project already has an active session, ${sessionId}.`);
}

export function identityKeyTaken(id: string, holder: string): Conflict {
  return nameTaken(`A key of the identity ${id} belongs to ${holder}.`);
}

/** The record is being removed, in steps. */
export function leaving(noun: string, id: string): Conflict {
  return nameTaken(`The ${noun} ${id} is being removed.`);
}

export function agentNameTaken(user: string, name: string, agentId: string): Conflict {
  return nameTaken(`The user "${user}" has another agent "${name}" (${agentId}).`);
}

/** The claims of an agent are held under its name. */
export function agentHoldsTasks(stored: string, name: string): Conflict {
  return {
    kind: 'holds_tasks',
    detail: `The agent "${stored}" holds tasks under this name, so it cannot become "${name}".`,
  };
}

export function tooManyAgents(user: string, agentsMax: number): Conflict {
  return { kind: 'quota', detail: `The user "${user}" would have more than ${agentsMax} agents.` };
}

export function linkedToAnother(identity: string): Conflict {
  return nameTaken(`The identity ${identity} is linked to another agent.`);
}

function nameTaken(detail: string): Conflict {
  return { kind: 'name_taken', detail };
}
