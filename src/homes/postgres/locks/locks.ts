/**
 * Locks in PostgreSQL, shared by all servers. The clock of the database decides. The row of the user in
 * `locks.fences` is locked while one of its locks is acquired, and before the row of the lock.
 */
import { operatorCaller } from '../../../core/caller.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type Writer, writeOne } from '../../../core/write.js';
import { userKey } from '../../../identity/user-key.js';
import { type LapseReason, lockAcquired, lockLapsed, lockReleased } from '../../../locks/changes.js';
import type { Lock } from '../../../locks/model.js';
import type { LocksPort } from '../../../locks/port.js';
import {
  type Acquisition,
  checkLockFence,
  checkLockQuota,
  checkRelease,
  heldLock,
  newLock,
  renewedLock,
} from '../../../locks/rules.js';
import { type PostgresSql, query } from '../database/connection.js';
import { clockColumn } from '../database/database-clock.js';
import type { KnownUsers } from '../known-users.js';
import { PostgresStep, type RowName } from '../write/step.js';
import type { Work } from '../write/work.js';
import {
  type LockRow,
  addFence,
  deleteLock,
  endOf,
  insertLock,
  lockAcquisitions,
  lockColumns,
  lockTables,
  lockOf,
  lockedLock,
  readLock,
  renewLock,
} from './rows.js';
import { migrate } from '../database/migrate.js';
import { locksTables } from './schema.js';

export interface PostgresLocksOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  readonly users: KnownUsers;
  readonly nowMs: () => number;
}

export async function openPostgresLocks(options: PostgresLocksOptions): Promise<PostgresLocks> {
  await migrate(options.sql, locksTables);
  return new PostgresLocks(options);
}

/** The caller of writes that no client requested. */
const background = operatorCaller();

export class PostgresLocks implements LocksPort {
  readonly #options: PostgresLocksOptions;

  constructor(options: PostgresLocksOptions) {
    this.#options = options;
  }

  readonly acquireLock: LocksPort['acquireLock'] = (acquisition) => {
    const { user, name } = acquisition;
    const userId = userIdOf(user);
    return new PostgresStep([lockRow(user)], async (work) => {
      // A refusal locks nothing, and a renewal only its own row.
      const held = heldLock(await readLock(work, userId, name), endOf, work.nowMs);
      if (renewedLock(held, acquisition, work.nowMs, endOf) !== undefined) {
        const renewed = await renew(work, userId, acquisition, await lockedLock(work, userId, name));
        if (renewed !== undefined) return { lock: renewed, acquired: false };
      }
      await this.#options.users.ensure(work, user);
      const fence = await addFence(work, userId, user);
      // Another acquisition may have come first.
      const stored = await lockedLock(work, userId, name);
      const taken = await renew(work, userId, acquisition, stored);
      if (taken !== undefined) return { lock: taken, acquired: false };
      if (stored !== undefined) lapse(work, userId, stored, 'expired');
      const [counted] = await work.rows<{ locks: string }>(
        'SELECT count(*) AS locks FROM locks.locks WHERE user_id = $1',
        [userId],
      );
      checkLockQuota(Number(counted?.locks ?? 0), this.#options.limits);
      const lock = newLock(acquisition, fence, work.nowMs);
      insertLock(work, userId, lock);
      work.announce(lockAcquired(lock));
      return { lock, acquired: true };
    });
  };

  readonly releaseLock: LocksPort['releaseLock'] = (release) => {
    const userId = userIdOf(release.user);
    return new PostgresStep([lockRow(release.user)], async (work) => {
      const held = heldLock(await lockedLock(work, userId, release.name), endOf, work.nowMs);
      if (!checkRelease(held, release, endOf)) return false;
      deleteLock(work, userId, held.name);
      work.announce(lockReleased(held));
      return true;
    });
  };

  readonly requireLock: LocksPort['requireLock'] = (user, name, fence) => {
    const userId = userIdOf(user);
    return new PostgresStep([lockRow(user)], async (work) => {
      if (fence === 0) lockAcquisitions(work, userId, user);
      checkLockFence(heldLock(await lockedLock(work, userId, name), endOf, work.nowMs), name, fence);
    });
  };

  readonly listLocks: LocksPort['listLocks'] = async (user, { prefix, after, limit }) => {
    const rows = await query<LockRow>(
      this.#options.sql,
      `SELECT ${lockColumns} FROM ${lockTables} WHERE l.user_id = $1 AND starts_with(l.name, $2)
        AND l.name >= $2 AND ($3::text IS NULL OR l.name > $3) AND l.expires_at > $4 ORDER BY l.name LIMIT $5`,
      [userIdOf(user), prefix, after, new Date(this.#options.nowMs()).toISOString(), limit + 1],
    );
    const items = rows.slice(0, limit).map(lockOf);
    return { items, next: rows.length > limit ? (items.at(-1)?.name ?? null) : null };
  };

  /** Frees the locks of an agent that was lost or forgotten. */
  async releaseHeldBy(work: Work, user: string, holders: readonly string[]): Promise<void> {
    const rows = await work.rows<LockRow>(
      `DELETE FROM locks.locks l USING locks.fences f WHERE l.user_id = $1 AND l.holder = ANY($2::text[])
        AND f.user_id = l.user_id RETURNING ${lockColumns}`,
      [userIdOf(user), [...holders]],
    );
    for (const row of rows) work.announce(lockLapsed(lockOf(row), 'holder_lost'));
  }

  /** A renamed agent keeps its locks. */
  async renameHolder(work: Work, user: string, holder: string, name: string): Promise<void> {
    await work.rows('UPDATE locks.locks SET holder = $3 WHERE user_id = $1 AND holder = $2', [
      userIdOf(user),
      holder,
      name,
    ]);
  }

  /** Ends locks whose time is over. */
  async sweep(writer: Writer, isOver: () => boolean = () => false): Promise<void> {
    const { sweepStepMax } = this.#options.limits;
    const step = new PostgresStep([], (work) => sweepStep(work, sweepStepMax));
    while (!isOver() && (await writeOne(writer, { caller: background }, step)) === sweepStepMax);
  }
}

function lapse(work: Work, userId: string, lock: Lock, reason: LapseReason): void {
  deleteLock(work, userId, lock.name);
  work.announce(lockLapsed(lock, reason));
}

/** The renewed lock, or undefined if the lock is free. */
async function renew(
  work: Work,
  userId: string,
  acquisition: Acquisition,
  stored: Lock | undefined,
): Promise<Lock | undefined> {
  const held = heldLock(stored, endOf, work.nowMs);
  const renewed = renewedLock(held, acquisition, work.nowMs, endOf);
  if (renewed !== undefined) renewLock(work, userId, renewed);
  return renewed;
}

async function sweepStep(work: Work, limit: number): Promise<number> {
  const rows = await work.rows<LockRow & { clock_ms: string }>(
    `SELECT due.*, ${clockColumn} FROM (
        SELECT l.user_id, ${lockColumns} FROM ${lockTables}
        WHERE l.expires_at <= clock_timestamp() + ${work.clock.skewMs} * interval '1 millisecond'
        ORDER BY l.expires_at LIMIT ${limit} FOR UPDATE OF l SKIP LOCKED) due`,
  );
  const last = rows.at(-1);
  if (last !== undefined) work.readClock(last.clock_ms);
  for (const row of rows) lapse(work, row.user_id, lockOf(row), 'expired');
  return rows.length;
}

export function userIdOf(user: string): string {
  return userKey(user).toString('hex');
}

/** All locks of a user share one name: the writes of several steps take it in one order. */
function lockRow(user: string): RowName {
  return { table: 'locks', key: user };
}
