/** Ids of workspaces, projects, sessions and tasks: the seed's prefix and a UUID that grows with time. */
import { StoaError } from '../core/errors.js';
import { uuid7 } from '../core/ids/uuid.js';
import type { Entity } from './model.js';

const prefixes = {
  workspace: 'ws_',
  project: 'proj_',
  session: 'sess_',
  task: 'task_',
} as const satisfies Record<Entity, string>;
const uuid = '[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}';

/** What an id of each kind looks like. */
export const idPatterns = {
  workspace: new RegExp(`^ws_${uuid}$`),
  project: new RegExp(`^proj_${uuid}$`),
  session: new RegExp(`^sess_${uuid}$`),
  task: new RegExp(`^task_${uuid}$`),
} as const satisfies Record<Entity, RegExp>;

export function newId(entity: Entity): string {
  return prefixes[entity] + uuid7();
}

/** Whether a reference means an id, and not a name; also an id of another kind, which is then refused. */
export function meansId(entity: Entity, reference: string): boolean {
  return (
    reference.startsWith(prefixes[entity]) ||
    Object.values(idPatterns).some((pattern) => pattern.test(reference))
  );
}

/** The id in lower case. Throws for an invalid one. */
export function checkId(entity: Entity, id: string): string {
  if (!idPatterns[entity].test(id)) {
    throw new StoaError(
      'invalid_request',
      `Invalid ${entity} id "${id.slice(0, 60)}". Expected "${prefixes[entity]}" followed by a UUID.`,
      { details: { field: 'id' } },
    );
  }
  return id.toLowerCase();
}
