/** A write checks its caller in the database, because it may have waited since the request was authenticated. */
import type { Caller } from '../../../core/caller.js';
import { tokenRemovedError } from '../../../identity/tokens.js';
import { type SignedCaller, checkSigner, isSigned } from '../../../messaging/identities/signed-caller.js';
import { agentSigns } from '../../../registry/refusals.js';
import { type Queryable, query } from '../database/connection.js';
import { findIdentity } from '../messaging/identities.js';
import { isLinked } from '../registry/links.js';
import { time } from '../registry/rows.js';
import { userIdOf } from '../registry/users.js';

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

const findNamed = `SELECT ${tokenIsLive('$1::text', '$2::timestamptz')} AS live, EXISTS (
    SELECT FROM registry.agents a
      JOIN registry.identity_links l ON l.user_id = a.user_id AND l.agent_id = a.agent_id
      WHERE a.user_id = $3::text AND a.name = $4::text) AS signs`;

/**
 * Refuses a caller whose token was revoked or has expired, whose agent has its own key by now, or whose key
 * or link has changed.
 */
export async function checkCaller(sql: Queryable, caller: Caller, nowMs: number): Promise<void> {
  const { tokenId, user, agent } = caller;
  if (tokenId !== null && agent !== null) {
    const [row] = await query<{ live: boolean; signs: boolean }>(sql, findNamed, [
      tokenId,
      time(nowMs),
      userIdOf(user),
      agent,
    ]);
    if (row?.live !== true) throw tokenRemovedError();
    if (row.signs) throw agentSigns(agent);
  } else if (isSigned(caller)) await checkSignature(sql, caller);
  else await checkCallerToken(sql, caller, nowMs);
}

async function checkSignature(sql: Queryable, caller: SignedCaller): Promise<void> {
  const { identity, user, agentId } = caller;
  const [now, linked] = await Promise.all([
    findIdentity(sql, identity),
    agentId === null ? false : isLinked(sql, userIdOf(user), agentId, identity),
  ]);
  checkSigner(caller, now, linked);
}
