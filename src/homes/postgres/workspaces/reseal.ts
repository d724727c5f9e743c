/** Re-keying in PostgreSQL: records go under the current key in steps that note how far they came. */
import type { Sealer } from '../../../secrets/sealer.js';
import { resealConfig } from '../../../workspaces/config-secrets.js';
import type { JsonObject } from '../../../workspaces/model.js';
import type { WorkspacesWork } from './work.js';

export const resealKind = 'reseal';
const tables = ['workspaces', 'projects'] as const;

/**
 * Marks the start, or lets a run for the same key that was cut off go on. The mark has the name of the
 * key: a server with another current key must not take part, it would undo what is done.
 */
export async function startReseal(work: WorkspacesWork, sealer: Sealer): Promise<void> {
  const { currentId } = sealer.ring;
  await work.rows('DELETE FROM workspaces.bulk_work WHERE kind = $1 AND name <> $2', [resealKind, currentId]);
  await work.rows(
    'INSERT INTO workspaces.bulk_work (kind, name, value) VALUES ($1, $2, $3) ON CONFLICT (kind, name) DO NOTHING',
    [resealKind, currentId, `${tables[0]} `],
  );
}

/** One step of a run that is marked. Answers how many records changed, or null where none is left to do. */
export async function resealStep(work: WorkspacesWork, sealer: Sealer): Promise<number | null> {
  const { currentId } = sealer.ring;
  const [mark] = await work.rows<{ value: string }>(
    'SELECT value FROM workspaces.bulk_work WHERE kind = $1 AND name = $2 FOR UPDATE',
    [resealKind, currentId],
  );
  if (mark === undefined) return null;
  const [name, after = ''] = mark.value.split(' ');
  const table = name === tables[0] ? tables[0] : tables[1];
  const { last, resealed } = await resealPage(work, sealer, table, after);
  if (last === null && table === tables[1])
    await work.rows('DELETE FROM workspaces.bulk_work WHERE kind = $1 AND name = $2', [
      resealKind,
      currentId,
    ]);
  else
    await work.rows('UPDATE workspaces.bulk_work SET value = $3 WHERE kind = $1 AND name = $2', [
      resealKind,
      currentId,
      last === null ? `${tables[1]} ` : `${table} ${last}`,
    ]);
  return resealed;
}

/** A page of one table after `after`. Answers where it ended, or null at the end. Neither version nor updated_at move. */
async function resealPage(
  work: WorkspacesWork,
  sealer: Sealer,
  table: (typeof tables)[number],
  after: string,
): Promise<{ last: string | null; resealed: number }> {
  const column = table === 'workspaces' ? 'claude_key' : 'config';
  const limit = work.limits.workspaceStepRowsMax;
  const rows = await work.rows(
    `SELECT id, ${column} AS sealed FROM workspaces.${table} WHERE id > $1 ORDER BY id LIMIT ${limit} FOR UPDATE`,
    [after],
  );
  let resealed = 0;
  for (const row of rows) {
    const id = String(row['id']);
    const fresh =
      table === 'workspaces'
        ? resealedKey(row['sealed'], id, sealer)
        : resealedConfig(row['sealed'], id, sealer);
    if (fresh === undefined) continue;
    await work.rows(`UPDATE workspaces.${table} SET ${column} = $2 WHERE id = $1`, [id, fresh]);
    resealed += 1;
  }
  return { last: rows.length < limit ? null : String(rows.at(-1)?.['id']), resealed };
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
