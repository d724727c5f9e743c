/**
 * Users in PostgreSQL. A user is created by its first write. Its row is locked while its agents are counted.
 */
import { userKey } from '../../../identity/user-key.js';
import { userChange } from '../../../registry/announcements.js';
import type { StoredUser } from '../../../registry/model.js';
import type { UserChange } from '../../../registry/port.js';
import { secondSpelling } from '../../../registry/refusals.js';
import { changedUser, newUser } from '../../../registry/lifecycle/user-changes.js';
import { type Queryable, query } from '../database/connection.js';
import { type Row, nowColumn, number, text, time, userColumns, userOf } from './rows.js';
import type { RegistryWork } from './work.js';

export interface LockedUser extends StoredUser {
  /** The highest fencing number of the user's deleted agents. */
  deletedFence: number;
}

export function userIdOf(user: string): string {
  return userKey(user).toString('hex');
}

/**
 * Locks the user until the transaction ends, and creates a new user. Refuses a second spelling of a known
 * user.
 */
export async function ensureUser(work: RegistryWork, user: string): Promise<LockedUser> {
  const userId = userIdOf(user);
  const known = await lockUser(work, userId);
  if (known !== undefined) {
    if (known.user !== user) throw secondSpelling();
    return known;
  }
  const { email, created_at, last_seen_at } = newUser(userId, work.nowMs);
  const made = await work.rows(
    `INSERT INTO registry.users (user_id, name, email, created_at, last_seen_at) VALUES ($1, $2, $3, $4, $5)
      ON CONFLICT (user_id) DO NOTHING RETURNING user_id`,
    [userId, user, email, time(created_at), time(last_seen_at)],
  );
  if (made.length > 0) work.announce(userChange('user.created', user));
  // The row exists now: this write inserted it, or waited for another write that did.
  return ensureUser(work, user);
}

export async function lockUser(work: RegistryWork, userId: string): Promise<LockedUser | undefined> {
  const [row] = await work.rows(
    `WITH locked AS MATERIALIZED (SELECT * FROM registry.users WHERE user_id = $1 FOR UPDATE)
      SELECT ${userColumns}, ${nowColumn} FROM locked`,
    [userId],
  );
  if (row === undefined) return undefined;
  work.lockedAt(row);
  return { ...userOf(row), deletedFence: number(row, 'deleted_fence') };
}

export async function putUser(work: RegistryWork, user: string, change: UserChange): Promise<StoredUser> {
  const { deletedFence: _, ...before } = await ensureUser(work, user);
  const after = changedUser(before, change);
  if (after === before) return before;
  await work.rows('UPDATE registry.users SET email = $2, agents_max = $3 WHERE user_id = $1', [
    after.record.user_id,
    after.record.email,
    after.agentsMax,
  ]);
  work.announce(userChange('user.updated', user));
  return after;
}

/** Does not create the user. */
export async function recordUserCall(work: RegistryWork, user: string): Promise<void> {
  const seenBeforeMs = work.nowMs - work.limits.lastSeenSeconds * 1_000;
  await work.rows(
    'UPDATE registry.users SET last_seen_at = $2 WHERE user_id = $1 AND last_seen_at <= $3 AND name = $4',
    [userIdOf(user), time(work.nowMs), time(seenBeforeMs), user],
  );
}

export async function getUser(sql: Queryable, user: string): Promise<StoredUser | undefined> {
  const [row] = await query<Row>(sql, `SELECT ${userColumns} FROM registry.users WHERE user_id = $1`, [
    userIdOf(user),
  ]);
  return row === undefined ? undefined : userOf(row);
}

/** The stored spelling of a user, or undefined if the user does not exist. */
export async function spellingOf(sql: Queryable, user: string): Promise<string | undefined> {
  const [row] = await query<Row>(sql, 'SELECT name FROM registry.users WHERE user_id = $1', [userIdOf(user)]);
  return row === undefined ? undefined : text(row, 'name');
}
