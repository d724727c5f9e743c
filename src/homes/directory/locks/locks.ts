/** Locks in the data directory, in the shard of their user. */
import type { Change } from '../../../core/change.js';
import { extendedByOutages } from '../../../core/outages.js';
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
import { userKeyBytes } from '../../../registry/layout/keys.js';
import { prefixRange } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
import { walk } from '../kernel/walk.js';
import { step } from '../step.js';
import {
  type StoredLock,
  decodeLock,
  holderPrefix,
  lockFamilies as families,
  lockKey,
  lockRecords,
  nameOfHolderKey,
  readCounters,
  readLock,
  writeCounters,
} from './rows.js';

export const lockTimer = 'locks.lock';

export interface DirectoryLocksOptions {
  /** A user exists from its first write. */
  readonly onOwner: (tx: Transaction, user: string) => void;
}

export class DirectoryLocks implements LocksPort {
  readonly #kernel: Kernel;
  readonly #onOwner: DirectoryLocksOptions['onOwner'];

  constructor(kernel: Kernel, { onOwner }: DirectoryLocksOptions) {
    this.#kernel = kernel;
    this.#onOwner = onOwner;
    kernel.handleTimer(lockTimer, (tx, reference) => this.#onTimer(tx, reference));
  }

  readonly acquireLock: LocksPort['acquireLock'] = (acquisition) =>
    step(this.#kernel.storeOf(userKey(acquisition.user)), (tx) => {
      const stored = readLock(tx, lockKey(acquisition.user, acquisition.name));
      const held = heldLock(stored, this.#endOf, tx.nowMs);
      const renewed = renewedLock(held, acquisition, tx.nowMs, this.#endOf);
      if (stored !== undefined && renewed !== undefined) {
        this.#put(tx, stored, renewed);
        return { lock: renewed, acquired: false };
      }
      this.#onOwner(tx, acquisition.user);
      return { lock: this.#acquire(tx, acquisition, stored), acquired: true };
    });

  readonly releaseLock: LocksPort['releaseLock'] = (release) =>
    step(this.#kernel.storeOf(userKey(release.user)), (tx) => {
      const stored = readLock(tx, lockKey(release.user, release.name));
      const held = heldLock(stored, this.#endOf, tx.nowMs);
      if (!checkRelease(held, release, this.#endOf) || stored === undefined) return false;
      this.#remove(tx, stored, lockReleased(stored));
      return true;
    });

  readonly requireLock: LocksPort['requireLock'] = (user, name, fence) =>
    step(this.#kernel.storeOf(userKey(user)), (tx) =>
      checkLockFence(heldLock(readLock(tx, lockKey(user, name)), this.#endOf, tx.nowMs), name, fence),
    );

  readonly listLocks: LocksPort['listLocks'] = async (user, { prefix, after, limit }) => {
    const { lt, ...first } = prefixRange(lockKey(user, prefix));
    const start =
      after !== null && lockKey(user, after).compare(lockKey(user, prefix)) >= 0
        ? { gt: lockKey(user, after) }
        : first;
    const nowMs = this.#kernel.nowMs();
    const items: Lock[] = [];
    let isMore = false;
    const store = this.#kernel.storeOf(userKey(user));
    await walk(store, families.locks, { ...start, ...(lt !== undefined && { lt }) }, ({ value }) => {
      const lock = heldLock(decodeLock(value), this.#endOf, nowMs);
      if (lock === undefined) return true;
      isMore = items.length === limit;
      if (!isMore) items.push({ ...lock, expiresAtMs: this.#endOf(lock) });
      return !isMore;
    });
    return { items, next: isMore ? (items.at(-1)?.name ?? null) : null };
  };

  /** Frees the locks of an agent that was lost or forgotten. */
  releaseHeldBy(tx: Transaction, user: string, holders: readonly string[]): void {
    for (const holder of new Set(holders)) {
      const rows = Array.from(tx.range(families.locksByHolder, prefixRange(holderPrefix(user, holder))));
      for (const { key } of rows) this.#lapse(tx, lockKey(user, nameOfHolderKey(key)), 'holder_lost');
    }
  }

  /** A renamed agent keeps its locks. */
  renameHolder(tx: Transaction, user: string, holder: string, name: string): void {
    const rows = Array.from(tx.range(families.locksByHolder, prefixRange(holderPrefix(user, holder))));
    for (const { key } of rows) {
      const lock = readLock(tx, lockKey(user, nameOfHolderKey(key)));
      if (lock !== undefined) lockRecords.put(tx, lock, { ...lock, holder: name });
    }
  }

  /** For a move: the lock as it was, without an announcement. */
  restore(tx: Transaction, lock: Lock): void {
    this.#onOwner(tx, lock.user);
    const stored = readLock(tx, lockKey(lock.user, lock.name));
    if (stored === undefined) this.#count(tx, lock.user, { locks: 1, fence: lock.fence });
    this.#put(tx, stored, lock);
  }

  /** For a move: no fence up to this one is given out. */
  raiseFence(tx: Transaction, user: string, fence: number): void {
    this.#count(tx, user, { locks: 0, fence });
  }

  #acquire(tx: Transaction, acquisition: Acquisition, ended: StoredLock | undefined): Lock {
    // Its timer has not fired yet.
    if (ended !== undefined) this.#remove(tx, ended, lockLapsed(ended, 'expired'));
    const counters = readCounters(tx, acquisition.user);
    checkLockQuota(counters.locks, this.#kernel.limits);
    const lock = newLock(acquisition, counters.fence + 1, tx.nowMs);
    this.#put(tx, undefined, lock);
    this.#count(tx, lock.user, { locks: 1, fence: lock.fence });
    tx.change(lockAcquired(lock));
    return lock;
  }

  /** Renewals are frequent: the timer moves only if the lock ends before it fires. */
  #put(tx: Transaction, before: StoredLock | undefined, lock: Lock): void {
    const endMs = this.#endOf(lock);
    const keepsTimer = before !== undefined && before.timerAtMs <= endMs;
    const after = { ...lock, timerAtMs: keepsTimer ? before.timerAtMs : endMs };
    if (!keepsTimer) {
      if (before !== undefined) tx.unschedule(timerOfLock(before));
      tx.schedule(timerOfLock(after));
    }
    lockRecords.put(tx, before, after);
  }

  #remove(tx: Transaction, lock: StoredLock, change: Change): void {
    tx.unschedule(timerOfLock(lock));
    lockRecords.remove(tx, lock);
    this.#count(tx, lock.user, { locks: -1, fence: 0 });
    tx.change(change);
  }

  #count(tx: Transaction, user: string, { locks, fence }: { locks: number; fence: number }): void {
    const before = readCounters(tx, user);
    writeCounters(tx, { user, locks: before.locks + locks, fence: Math.max(before.fence, fence) });
  }

  #lapse(tx: Transaction, key: Buffer, reason: LapseReason): void {
    const lock = readLock(tx, key);
    if (lock !== undefined) this.#remove(tx, lock, lockLapsed(lock, reason));
  }

  #onTimer(tx: Transaction, reference: Buffer): void {
    const lock = readLock(tx, reference);
    // The sweeper has removed the timer that fired. A newer timer of the lock is left alone.
    if (lock === undefined || lock.timerAtMs > tx.nowMs) return;
    if (heldLock(lock, this.#endOf, tx.nowMs) === undefined) {
      this.#lapse(tx, reference, 'expired');
      return;
    }
    const later = { ...lock, timerAtMs: this.#endOf(lock) };
    tx.schedule(timerOfLock(later));
    lockRecords.rewrite(tx, later);
  }

  readonly #endOf = ({ renewedAtMs, expiresAtMs }: Lock): number =>
    extendedByOutages(renewedAtMs, expiresAtMs, this.#kernel.outages);
}

export function timerOfLock(lock: StoredLock): { atMs: number; kind: string; reference: Buffer } {
  return { atMs: lock.timerAtMs, kind: lockTimer, reference: lockKey(lock.user, lock.name) };
}

export function userOfLockKey(key: Buffer): Buffer {
  return key.subarray(0, userKeyBytes);
}
