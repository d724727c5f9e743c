/** What locks need of storage: a list that answers, and writes as steps. */
import type { Step } from '../core/write.js';
import type { Lock } from './model.js';
import type { Acquisition, Release } from './rules.js';

export interface AcquiredLock {
  lock: Lock;
  /** False for a renewal. */
  acquired: boolean;
}

export interface LockListRequest {
  prefix: string;
  /** The name after which the page begins. */
  after: string | null;
  limit: number;
}

export interface LockList {
  items: Lock[];
  /** The name after which the next page begins, or null at the end. */
  next: string | null;
}

/** The times of a lock in every answer include outages of the home. */
export interface LocksPort {
  acquireLock(acquisition: Acquisition): Step<AcquiredLock>;
  /** Returns false if no agent held the lock. */
  releaseLock(release: Release): Step<boolean>;
  /** Refuses a commit where the lock has another number; a free lock has number 0. */
  requireLock(user: string, name: string, fence: number): Step<void>;
  /** Locks that have not ended, in the order of the bytes of their names. */
  listLocks(user: string, request: LockListRequest): Promise<LockList>;
}
