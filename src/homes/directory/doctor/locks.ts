/** What must hold between locks, their index rows, their timers and the counters of their users. */
import { messageOf } from '../../../core/errors.js';
import { prefixRange, type Entry } from '../kernel/engine.js';
import {
  type Check,
  type Damage,
  type Found,
  eachRow,
  surplusRow,
  wrongRow,
} from '../kernel/inspect/doctor.js';
import type { Reader } from '../kernel/transaction.js';
import { timerOfLock, userOfLockKey } from '../locks/locks.js';
import {
  type LockCounters,
  type StoredLock,
  decodeCounters,
  decodeLock,
  lockFamilies as families,
  lockKey,
  lockRecords,
  nameOfHolderKey,
  writeCounters,
} from '../locks/rows.js';
import { inspectIndexRow, inspectRows } from './indexes.js';
import { inspectTimer } from './timers.js';

export const lockChecks: readonly Check[] = [
  { family: families.locks, inspect: lockDamage },
  { family: families.locksByHolder, inspect: indexDamage },
  { family: families.counters, inspect: (reader, { key }) => counterDamage(reader, key) },
  // A user whose counter row is missing is found by its locks.
  { family: families.locks, inspect: (reader, entry) => missingCounterDamage(reader, entry) },
];

/** An unreadable lock is removed: it is a lease that its holder takes again. */
function* lockDamage(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const lock = readable(key, value);
  if (typeof lock === 'string') {
    yield { ...surplusRow(families.locks, key, 'wrong', lock), kind: 'unreadable' };
    return;
  }
  yield* inspectRows(reader, lockRecords.rowsOf(lock), `the lock "${lock.name}"`);
  yield* inspectTimer(reader, timerOfLock(lock), `The timer of the lock "${lock.name}" is missing.`);
}

function* indexDamage(reader: Reader, entry: Entry): Generator<Damage> {
  const key = Buffer.concat([userOfLockKey(entry.key), Buffer.from(nameOfHolderKey(entry.key))]);
  const value = reader.get(families.locks, key);
  const lock = value === undefined ? undefined : readable(key, value);
  const rows = lock === undefined || typeof lock === 'string' ? undefined : lockRecords.rowsOf(lock);
  yield* inspectIndexRow(families.locksByHolder, entry, rows, 'lock');
}

function* missingCounterDamage(reader: Reader, { key }: Entry): Generator<Found> {
  const user = userOfLockKey(key);
  const [first] = Array.from(reader.range(families.locks, { ...prefixRange(user), limit: 1 }));
  if (first?.key.equals(key) === true && reader.get(families.counters, user) === undefined)
    yield* counterDamage(reader, user);
}

/** The counter of locks is their number; the last fence is at least the highest. */
function* counterDamage(reader: Reader, key: Buffer): Generator<Found> {
  let locks = 0;
  let fence = 0;
  let user: string | undefined;
  yield* eachRow(reader, families.locks, prefixRange(key), (entry) => {
    const lock = readable(entry.key, entry.value);
    locks += 1;
    if (typeof lock === 'string') return;
    fence = Math.max(fence, lock.fence);
    user = lock.user;
  });
  const kept = readableCounters(reader.get(families.counters, key));
  if (kept !== undefined && kept.locks === locks && kept.fence >= fence) return;
  const owner = kept?.user ?? user;
  if (owner === undefined) {
    yield surplusRow(families.counters, key, 'wrong', 'A counter of locks cannot be read, and has no locks.');
    return;
  }
  yield wrongRow(
    families.counters,
    key,
    `The counter of locks is ${kept?.locks ?? 'missing'}, with fence ${kept?.fence ?? 'missing'}. ` +
      `Expected ${locks}, with fence ${fence} or more.`,
    (tx) => writeCounters(tx, { user: owner, locks, fence: Math.max(fence, kept?.fence ?? 0) }),
  );
}

function readableCounters(value: Buffer | undefined): LockCounters | undefined {
  if (value === undefined) return undefined;
  try {
    return decodeCounters(value);
  } catch {
    // Reported as a wrong counter.
    return undefined;
  }
}

/** The lock, or what is wrong with its row. */
function readable(key: Buffer, value: Buffer): StoredLock | string {
  try {
    const lock = decodeLock(value);
    return lockKey(lock.user, lock.name).equals(key)
      ? lock
      : `The row of the lock "${lock.name}" is stored under the key of another lock.`;
  } catch (error) {
    return `The row of a lock cannot be read: ${messageOf(error)}`;
  }
}
