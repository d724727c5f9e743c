/** Re-keying in PostgreSQL: records go under the current key in steps that note how far they came. */
import type { Sealer } from '../../../secrets/sealer.js';
import { resealConfig } from '../../../workspaces/config-secrets.js';
import type { JsonObject } from '../../../workspaces/model.js';
import type { WorkspacesWork } from './work.js';

/** Which column of which table holds secrets, in the order in which they are gone through. */
const columns = { workspaces: 'claude_key', projects: 'config' } as const;
type Entity = keyof typeof columns;

interface Mark {
  readonly entity: Entity;
  readonly owner_id: string;
  readonly id: string;
}

/**
 * Marks the start, or lets a run for the same key that was cut off go on. The mark has the name of the
 * key: a server with another current key must not take part, it would undo what is done.
 */
export async function startReseal(work: WorkspacesWork, sealer: Sealer): Promise<void> {
  const { currentId } = sealer.ring;
  work.send('DELETE FROM workspaces.reseals WHERE key_id <> $1', [currentId]);
  work.send(
    "INSERT INTO workspaces.reseals (key_id, entity, owner_id, id) VALUES ($1, 'workspaces', '', '') ON CONFLICT (key_id) DO NOTHING",
    [currentId],
  );
}

/** One step of a run that is marked. Answers how many records changed, or null where none is left to do. */
export async function resealStep(work: WorkspacesWork, sealer: Sealer): Promise<number | null> {
  const { currentId } = sealer.ring;
  const [mark] = await work.rows<Mark>(
    'SELECT entity, owner_id, id FROM workspaces.reseals WHERE key_id = $1 FOR UPDATE',
    [currentId],
  );
  if (mark === undefined) return null;
  const { last, resealed } = await resealPage(work, sealer, mark);
  if (last === null && mark.entity === 'projects')
    work.send('DELETE FROM workspaces.reseals WHERE key_id = $1', [currentId]);
  else {
    const next = last ?? { entity: 'projects', owner_id: '', id: '' };
    work.send('UPDATE workspaces.reseals SET entity = $2, owner_id = $3, id = $4 WHERE key_id = $1', [
      currentId,
      next.entity,
      next.owner_id,
      next.id,
    ]);
  }
  return resealed;
}

/** A page of one table after a mark. Answers where it ended, or null at the end. Neither version nor updated_at move. */
async function resealPage(
  work: WorkspacesWork,
  sealer: Sealer,
  { entity, owner_id, id: after }: Mark,
): Promise<{ last: Mark | null; resealed: number }> {
  const column = columns[entity];
  const limit = work.limits.workspaceStepRowsMax;
  const rows = await work.rows<{ owner_id: string; id: string; sealed: unknown }>(
    `SELECT owner_id, id, ${column} AS sealed FROM workspaces.${entity} WHERE (owner_id, id) > ($1, $2) ORDER BY owner_id, id LIMIT ${limit} FOR UPDATE`,
    [owner_id, after],
  );
  let resealed = 0;
  for (const { owner_id: owner, id, sealed } of rows) {
    const fresh =
      entity === 'workspaces' ? resealedKey(sealed, id, sealer) : resealedConfig(sealed, id, sealer);
    if (fresh === undefined) continue;
    work.send(`UPDATE workspaces.${entity} SET ${column} = $3 WHERE owner_id = $1 AND id = $2`, [
      owner,
      id,
      fresh,
    ]);
    resealed += 1;
  }
  const end = rows.length < limit ? undefined : rows.at(-1);
  return { last: end === undefined ? null : { entity, owner_id: end.owner_id, id: end.id }, resealed };
}

function resealedKey(sealed: unknown, id: string, sealer: Sealer): string | undefined {
  return typeof sealed === 'string' && sealer.isStale(sealed) ? sealer.reseal(sealed, id) : undefined;
}

function resealedConfig(stored: unknown, id: string, sealer: Sealer): string | undefined {
  // The column holds the config that a project was written with, as text.
  const config = JSON.parse(String(stored)) as JsonObject;
  const fresh = resealConfig(config, id, sealer);
  return fresh === config ? undefined : JSON.stringify(fresh);
}
