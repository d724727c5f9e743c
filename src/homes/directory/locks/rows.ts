/** The rows of locks: each lock with its index row, and for each user the last fence and the number of locks. */
import { createHash } from 'node:crypto';
import { userKey } from '../../../identity/user-key.js';
import type { Lock } from '../../../locks/model.js';
import { userKeyBytes } from '../../../registry/layout/keys.js';
import { IndexedFamily } from '../indexed-family.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { decodeJson, encodeJson } from '../registry/rows.js';

export const lockFamilies = {
  /** User and name. */
  locks: 'locks/locks',
  /** User, hash of the holder, and name. */
  locksByHolder: 'locks/locks_by_holder',
  /** By user. */
  counters: 'locks/counters',
} as const;

/** A lock with the time of its timer. A renewal leaves the timer alone. */
export interface StoredLock extends Lock {
  timerAtMs: number;
}

export interface LockCounters {
  /** The readable id. */
  user: string;
  /** The last fence that was given out. */
  fence: number;
  /** Rows of locks, including those that have ended and are not swept yet. */
  locks: number;
}

const holderBytes = 32;

export function lockKey(user: string, name: string): Buffer {
  return Buffer.concat([userKey(user), Buffer.from(name)]);
}

/** All locks of a holder have this prefix. */
export function holderPrefix(user: string, holder: string): Buffer {
  return Buffer.concat([userKey(user), createHash('sha256').update(holder).digest()]);
}

export function nameOfHolderKey(key: Buffer): string {
  return key.toString('utf8', userKeyBytes + holderBytes);
}

export const lockRecords = new IndexedFamily<StoredLock>({
  family: lockFamilies.locks,
  keyOf: ({ user, name }) => lockKey(user, name),
  encode: encodeJson,
  indexes: [
    {
      family: lockFamilies.locksByHolder,
      keysOf: ({ user, holder, name }) => Buffer.concat([holderPrefix(user, holder), Buffer.from(name)]),
      basisOf: ({ holder }) => holder,
    },
  ],
});

export function decodeLock(value: Buffer): StoredLock {
  return decodeJson<StoredLock>(value, 'lock');
}

export function readLock(reader: Reader, key: Buffer): StoredLock | undefined {
  const value = reader.get(lockFamilies.locks, key);
  return value === undefined ? undefined : decodeLock(value);
}

export function decodeCounters(value: Buffer): LockCounters {
  return decodeJson<LockCounters>(value, 'counter of locks');
}

export function readCounters(reader: Reader, user: string): LockCounters {
  const value = reader.get(lockFamilies.counters, userKey(user));
  return value === undefined ? { user, fence: 0, locks: 0 } : decodeCounters(value);
}

export function writeCounters(tx: Transaction, counters: LockCounters): void {
  tx.put(lockFamilies.counters, userKey(counters.user), encodeJson(counters));
}
