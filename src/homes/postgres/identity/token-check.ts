/** A write checks the token of its caller in the database, even if this server has cached the token. */
import type { Caller } from '../../../core/caller.js';
import { tokenRemovedError } from '../../../identity/tokens.js';
import { type Queryable, query } from '../database/connection.js';
import { time } from '../registry/rows.js';

/** The name of a token in the table of ids and their owners. */
export function tokenOwnerId(id: string): string {
  return `token:${id}`;
}

/**
 * An SQL condition on two expressions: the id of a token, and the time. The row is not locked: a revocation
 * that ends before the write begins is seen, and one that runs beside it may come before or after.
 */
export function tokenIsLive(id: string, now: string): string {
  return `EXISTS (SELECT FROM registry.owners o
    JOIN registry.tokens t ON t.user_id = o.user_id AND t.token_id = ${id}
    WHERE o.id = 'token:' || ${id} AND (t.expires_at IS NULL OR t.expires_at > ${now}))`;
}

const findLive = `SELECT ${tokenIsLive('$1::text', '$2::timestamptz')} AS live`;

/** Refuses a caller whose token was revoked or has expired. */
export async function checkCallerToken(
  sql: Queryable,
  { tokenId }: Pick<Caller, 'tokenId'>,
  nowMs: number,
): Promise<void> {
  if (tokenId === null) return;
  const [row] = await query<{ live: boolean }>(sql, findLive, [tokenId, time(nowMs)]);
  if (row?.live !== true) throw tokenRemovedError();
}
