/** Re-keying in PostgreSQL: encrypts secrets with the current key, in steps that store their progress. */
import type { Sealer } from '../../../secrets/sealer.js';
import { resealConfig } from '../../../workspaces/secrets/config-secrets.js';
import type { JsonObject } from '../../../workspaces/model.js';
import type { WorkspacesWork } from './work.js';

/** The column with secrets in each table, in the order of processing. */
const columns = { workspaces: 'claude_key', projects: 'config' } as const;
type Entity = keyof typeof columns;

/** The last record that was processed. */
interface Progress {
  readonly entity: Entity;
  readonly owner_id: string;
  readonly id: string;
}

/**
 * Starts a re-keying, or continues one for the same key that was interrupted. The progress row has the id of
 * the key: a server with another current key must not take part, because it would encrypt with the old key
 * again.
 */
export async function startReseal(work: WorkspacesWork, sealer: Sealer): Promise<void> {
  const { currentId } = sealer.ring;
  work.send('DELETE FROM workspaces.reseals WHERE key_id <> $1', [currentId]);
  work.send(
    `INSERT INTO workspaces.reseals (key_id, entity, owner_id, id) VALUES ($1, 'workspaces', '', '')
      ON CONFLICT (key_id) DO NOTHING`,
    [currentId],
  );
}

/** Does one step. Returns the number of changed records, or null if no re-keying is in progress. */
export async function resealStep(work: WorkspacesWork, sealer: Sealer): Promise<number | null> {
  const { currentId } = sealer.ring;
  const [progress] = await work.rows<Progress>(
    'SELECT entity, owner_id, id FROM workspaces.reseals WHERE key_id = $1 FOR UPDATE',
    [currentId],
  );
  if (progress === undefined) return null;
  const { last, resealed } = await resealPage(work, sealer, progress);
  if (last === null && progress.entity === 'projects')
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

/**
 * Re-encrypts one page of a table. `last` is the last record of the page, or null at the end of the table.
 * Does not change `version` and `updated_at`.
 */
async function resealPage(
  work: WorkspacesWork,
  sealer: Sealer,
  { entity, owner_id, id: after }: Progress,
): Promise<{ last: Progress | null; resealed: number }> {
  const column = columns[entity];
  const limit = work.limits.workspaceStepRowsMax;
  const rows = await work.rows<{ owner_id: string; id: string; sealed: unknown }>(
    `SELECT owner_id, id, ${column} AS sealed FROM workspaces.${entity}
      WHERE (owner_id, id) > ($1, $2) ORDER BY owner_id, id LIMIT ${limit} FOR UPDATE`,
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
  // The column has the JSON text of the project's config.
  const config = JSON.parse(String(stored)) as JsonObject;
  const fresh = resealConfig(config, id, sealer);
  return fresh === config ? undefined : JSON.stringify(fresh);
}
