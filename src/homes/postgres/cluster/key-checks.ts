/**
 * All servers need the same keys for secrets. The database has a check value of each key, so that a start
 * with a different key fails.
 */
import { createHmac } from 'node:crypto';
import { StoaError } from '../../../core/errors.js';
import type { KeyRing } from '../../../secrets/key-ring.js';
import { type PostgresSql, query } from '../database/connection.js';

/** Refuses a ring that lacks a key in use or has another one in its place. */
export async function requireKeys(sql: PostgresSql, ring: KeyRing): Promise<void> {
  const noted = await query<{ key_id: string; check_value: string }>(
    sql,
    'SELECT key_id, check_value FROM cluster.secret_keys',
  );
  const known = new Map(noted.map(({ key_id, check_value }) => [key_id, check_value]));
  const missing = [...known].filter(
    ([id, check]) => !ring.keyIds.includes(id) || checkOf(ring, id) !== check,
  );
  if (missing.length > 0)
    throw new StoaError(
      'invalid_config',
      `STOA_SECRET_KEYS does not contain the key ${missing.map(([id]) => id).join(', ')} that this ` +
        'database uses.',
      {
        fix: 'Set STOA_SECRET_KEYS to the same keys on every server. More keys after them are allowed.',
      },
    );
}

/** Notes the keys that are new. */
export async function noteKeys(sql: PostgresSql, ring: KeyRing): Promise<void> {
  await requireKeys(sql, ring);
  for (const id of ring.keyIds)
    await query(
      sql,
      'INSERT INTO cluster.secret_keys (key_id, check_value) VALUES ($1, $2) ON CONFLICT DO NOTHING',
      [id, checkOf(ring, id)],
    );
}

function checkOf(ring: KeyRing, id: string): string {
  return createHmac('sha256', ring.key(id)).update('stoa key check').digest('hex');
}
