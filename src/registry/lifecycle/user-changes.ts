/** How a user changes, as pure functions, so that every home decides the same. */
import type { Limits } from '../../core/settings/limits.js';
import type { StoredUser, UserRecord } from '../model.js';
import type { UserChange } from '../port.js';

/** A user exists from its first write. */
export function newUser(userId: string, nowMs: number): UserRecord {
  return { user_id: userId, email: '', created_at: nowMs, last_seen_at: nowMs };
}

/** The changed user, or the same object if nothing changes. */
export function changedUser(before: StoredUser, change: UserChange): StoredUser {
  const email = change.email ?? before.record.email;
  const agentsMax = change.agentsMax === undefined ? before.agentsMax : change.agentsMax;
  if (email === before.record.email && agentsMax === before.agentsMax) return before;
  return { ...before, record: { ...before.record, email }, agentsMax };
}

/** Whether a call of the user was recorded so recently that the next one is not recorded. */
export function isSeenLately(
  record: UserRecord,
  { lastSeenSeconds }: Pick<Limits, 'lastSeenSeconds'>,
  nowMs: number,
): boolean {
  return nowMs - record.last_seen_at < lastSeenSeconds * 1_000;
}
