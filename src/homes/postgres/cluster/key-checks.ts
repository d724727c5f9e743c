/**
 * All servers need the same keys for secrets. The database has a check value of each key, so that a start
 * with a different key fails.
 */
import { createHmac } from 'node:crypto';
import { StoaError } from '../../../core/errors.js';
import type { KeyRing } from '../../../secrets/key-ring.js';
import { sealedStart } from '../../../secrets/sealer.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';
import { isLiveServer } from './schema.js';
import { tableExists } from './tables.js';

/** All columns with sealed secrets. */
const sealedColumns = [
  { table: 'workspaces.workspaces', column: 'claude_key' },
  { table: 'workspaces.projects', column: 'config' },
  { table: 'messaging.kept_agents', column: 'sealed_seed' },
] as const;

/** Refuses a ring that lacks a key in use or has another one in its place. */
export async function requireKeys(sql: Queryable, ring: KeyRing): Promise<void> {
  const noted = await query<{ key_id: string; check_value: string }>(
    sql,
    'SELECT key_id, check_value FROM cluster.secret_keys',
  );
  // A ring without any known key is another ring.
  const isOwn = noted.some(({ key_id: id }) => ring.keyIds.includes(id));
  const missing: string[] = [];
  for (const { key_id: id, check_value: check } of noted)
    if (ring.keyIds.includes(id) ? checkOf(ring, id) !== check : !isOwn || (await isUsed(sql, id)))
      missing.push(id);
  if (missing.length > 0)
    throw new StoaError(
      'invalid_config',
      `STOA_SECRET_KEYS does not contain the key ${missing.join(', ')} that this database uses.`,
      {
        fix: 'Set STOA_SECRET_KEYS to the same keys on every server. More keys after them are allowed. To remove an old key, re-key first.',
      },
    );
}

/** Whether a secret is encrypted with the key, or a live server encrypts with it. */
async function isUsed(sql: Queryable, keyId: string): Promise<boolean> {
  const [server] = await query<{ used: boolean }>(
    sql,
    `SELECT EXISTS (SELECT FROM cluster.servers WHERE ${isLiveServer} AND key_ids[1] = $1) AS used`,
    [keyId],
  );
  if (server?.used === true) return true;
  for (const { table, column } of sealedColumns) {
    // The process that made the tables may have been killed.
    if (!(await tableExists(sql, table))) continue;
    const [found] = await query<{ used: boolean }>(
      sql,
      `SELECT EXISTS (SELECT FROM ${table} WHERE strpos(${column}::text, $1) > 0) AS used`,
      [sealedStart(keyId)],
    );
    if (found?.used === true) return true;
  }
  return false;
}

/** Notes the keys that are new. */
export async function noteKeys(sql: PostgresSql, ring: KeyRing): Promise<void> {
  await transaction(sql, async (tx) => {
    // One server at a time: of two that start together on a new database, both would find no key.
    await query(tx, 'LOCK TABLE cluster.secret_keys IN SHARE ROW EXCLUSIVE MODE');
    await requireKeys(tx, ring);
    for (const id of ring.keyIds)
      await query(
        tx,
        'INSERT INTO cluster.secret_keys (key_id, check_value) VALUES ($1, $2) ON CONFLICT DO NOTHING',
        [id, checkOf(ring, id)],
      );
  });
}

function checkOf(ring: KeyRing, id: string): string {
  return createHmac('sha256', ring.key(id)).update('stoa key check').digest('hex');
}
