/** Locks and their last fences in a data directory, as a move takes them. */
import type { LockFenceLine, LockLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import type { Kernel } from '../kernel/kernel.js';
import type { DirectoryLocks } from '../locks/locks.js';
import {
  type LockCounters,
  type StoredLock,
  decodeCounters,
  decodeLock,
  lockFamilies as families,
  lockKey,
  readCounters,
  readLock,
} from '../locks/rows.js';
import { FamilyRecords } from './records.js';

export function lockRecordStores(
  kernel: Kernel,
  locks: DirectoryLocks,
): [type: string, store: RecordStore][] {
  return [
    [
      'locks.fence',
      new FamilyRecords<LockFenceLine>(kernel, {
        family: families.counters,
        read: (_reader, { value }) => fenceLine(decodeCounters(value)),
        userOf: ({ user }) => user,
        stored: (reader, { user }) => {
          const counters = readCounters(reader, user);
          return counters.fence === 0 ? undefined : fenceLine(counters);
        },
        put: (tx, { user, fence }) => locks.raiseFence(tx, user, fence),
      }),
    ],
    [
      'locks.lock',
      new FamilyRecords<LockLine>(kernel, {
        family: families.locks,
        read: (_reader, { value }) => lockLine(decodeLock(value)),
        userOf: ({ user }) => user,
        stored: (reader, { user, name }) => {
          const lock = readLock(reader, lockKey(user, name));
          return lock && lockLine(lock);
        },
        put: (tx, { type: _type, ...lock }) => locks.restore(tx, lock),
      }),
    ],
  ];
}

function fenceLine({ user, fence }: LockCounters): LockFenceLine {
  return { type: 'locks.fence', user, fence };
}

function lockLine({ timerAtMs: _timerAtMs, ...lock }: StoredLock): LockLine {
  return { type: 'locks.lock', ...lock };
}
