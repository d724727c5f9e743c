/** What must hold between locks, their index rows, their timers and the counters of their users. */
import { prefixRange } from '../kernel/engine.js';
import { type Damage, type ExaminedRow, wrongRow } from '../kernel/inspect/damage.js';
import { type Check, type Found, eachRow } from '../kernel/inspect/doctor.js';
import type { Reader } from '../kernel/transaction.js';
import { timerOfLock, userOfLockKey } from '../locks/locks.js';
import {
  decodeCounters,
  decodeLock,
  lockFamilies as families,
  lockKey,
  lockRecords,
  nameOfHolderKey,
  readLock,
  writeCounters,
} from '../locks/rows.js';
import { indexCheck, inspectRows, readable } from './indexes.js';
import { inspectTimer } from './timers.js';

export const lockChecks: readonly Check[] = [
  { family: families.locks, inspect: lockDamage },
  indexCheck(families.locksByHolder, 'lock', lockRecords, ({ reader, key }) =>
    readLock(reader, Buffer.concat([userOfLockKey(key), Buffer.from(nameOfHolderKey(key))])),
  ),
  { family: families.counters, inspect: ({ reader, key }) => counterDamage(reader, key) },
  // A user whose counter row is missing is found by its locks.
  { family: families.locks, inspect: missingCounterDamage },
];

/** A lock that cannot be read is removed: it is a lease that its holder takes again. */
function* lockDamage(row: ExaminedRow): Generator<Damage> {
  const lock = readable(() => decodeLock(row.value));
  if (lock === undefined || !lockKey(lock.user, lock.name).equals(row.key)) {
    yield row.surplus('The row of a lock cannot be read, or is the row of another lock.', 'unreadable');
    return;
  }
  yield* inspectRows(row.reader, lockRecords.rowsOf(lock), `the lock "${lock.name}"`);
  yield* inspectTimer(row.reader, timerOfLock(lock), `The timer of the lock "${lock.name}" is missing.`);
}

function* missingCounterDamage({ reader, key }: ExaminedRow): Generator<Found> {
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
  yield* eachRow(reader, families.locks, prefixRange(key), ({ value }) => {
    locks += 1;
    const lock = readable(() => decodeLock(value));
    if (lock === undefined) return;
    fence = Math.max(fence, lock.fence);
    user = lock.user;
  });
  const stored = reader.get(families.counters, key);
  // A counter that cannot be read is reported as wrong.
  const kept = stored && readable(() => decodeCounters(stored));
  if (kept !== undefined && kept.locks === locks && kept.fence >= fence) return;
  const owner = kept?.user ?? user;
  yield wrongRow(
    families.counters,
    key,
    `The counter of locks is ${kept?.locks ?? 'missing'}, with fence ${kept?.fence ?? 'missing'}. ` +
      `Expected ${locks}, with fence ${fence} or more.`,
    // Without a name there are no locks, and the next lock writes a new counter.
    owner === undefined
      ? (tx) => tx.delete(families.counters, key)
      : (tx) => writeCounters(tx, { user: owner, locks, fence: Math.max(fence, kept?.fence ?? 0) }),
  );
}
