/** Converts locks to rows and back, and the statements that write one. */
import type { Lock, LockEnd } from '../../../locks/model.js';
import { clockColumn } from '../database/database-clock.js';
import type { Work } from '../write/work.js';

export interface LockRow {
  readonly user_id: string;
  readonly user_name: string;
  readonly name: string;
  readonly holder: string;
  readonly fence: string;
  readonly note: string;
  readonly acquired_ms: string;
  readonly renewed_ms: string;
  readonly expires_ms: string;
}

/** Of `locks.locks l JOIN locks.fences f`. */
export const lockColumns = `f.user_name, l.name, l.holder, l.fence, l.note,
  ${inMs('acquired')}, ${inMs('renewed')}, ${inMs('expires')}`;

export const lockTables = 'locks.locks l JOIN locks.fences f ON f.user_id = l.user_id';

export function lockOf(row: LockRow): Lock {
  return {
    user: row.user_name,
    name: row.name,
    holder: row.holder,
    fence: Number(row.fence),
    note: row.note,
    acquiredAtMs: Number(row.acquired_ms),
    renewedAtMs: Number(row.renewed_ms),
    expiresAtMs: Number(row.expires_ms),
  };
}

/** Without outages: of many servers one is always there. */
export const endOf: LockEnd = ({ expiresAtMs }) => expiresAtMs;

/** Locks the row until the transaction ends, and reads the clock of the database after that. */
export function lockedLock(work: Work, userId: string, name: string): Promise<Lock | undefined> {
  return readLock(work, userId, name, 'FOR UPDATE OF l');
}

export async function readLock(
  work: Work,
  userId: string,
  name: string,
  rowLock: '' | 'FOR UPDATE OF l' = '',
): Promise<Lock | undefined> {
  const [row] = await work.rows<LockRow & { clock_ms: string }>(
    `SELECT found.*, ${clockColumn} FROM (SELECT ${lockColumns} FROM ${lockTables}
      WHERE l.user_id = $1 AND l.name = $2 ${rowLock}) found`,
    [userId, name],
  );
  if (row === undefined) return undefined;
  work.readClock(row.clock_ms);
  return lockOf(row);
}

/** The next fence of the user. Its row is locked until the transaction ends. */
export async function addFence(work: Work, userId: string, user: string): Promise<number> {
  const [row] = await work.rows<{ fence: string; clock_ms: string }>(
    `WITH added AS (INSERT INTO locks.fences (user_id, user_name, fence) VALUES ($1, $2, 1)
        ON CONFLICT (user_id) DO UPDATE SET fence = fences.fence + 1 RETURNING fence)
      SELECT fence, ${clockColumn} FROM added`,
    [userId, user],
  );
  work.readClock(row?.clock_ms);
  return Number(row?.fence);
}

/**
 * Keeps every lock of the user from being acquired until the transaction ends: each acquisition changes the
 * same row. A user who never had a lock has no such row. Then it is inserted and deleted again, and
 * acquisitions wait for that.
 */
export function lockAcquisitions(work: Work, userId: string, user: string): void {
  work.send(
    `INSERT INTO locks.fences (user_id, user_name, fence) VALUES ($1, $2, 0)
      ON CONFLICT (user_id) DO UPDATE SET fence = fences.fence`,
    [userId, user],
  );
  work.send('DELETE FROM locks.fences WHERE user_id = $1 AND fence = 0', [userId]);
}

export function insertLock(work: Work, userId: string, lock: Lock): void {
  work.send(
    `INSERT INTO locks.locks (user_id, name, holder, fence, note, acquired_at, renewed_at, expires_at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`,
    [
      userId,
      lock.name,
      lock.holder,
      lock.fence,
      lock.note,
      timeText(lock.acquiredAtMs),
      timeText(lock.renewedAtMs),
      timeText(lock.expiresAtMs),
    ],
  );
}

export function renewLock(work: Work, userId: string, lock: Lock): void {
  work.send(
    `UPDATE locks.locks SET note = $3, renewed_at = $4, expires_at = $5 WHERE user_id = $1 AND name = $2`,
    [userId, lock.name, lock.note, timeText(lock.renewedAtMs), timeText(lock.expiresAtMs)],
  );
}

export function deleteLock(work: Work, userId: string, name: string): void {
  work.send('DELETE FROM locks.locks WHERE user_id = $1 AND name = $2', [userId, name]);
}

function timeText(ms: number): string {
  return new Date(ms).toISOString();
}

function inMs(column: 'acquired' | 'renewed' | 'expires'): string {
  return `floor(extract(epoch FROM l.${column}_at) * 1000)::bigint AS ${column}_ms`;
}
