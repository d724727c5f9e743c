/** Removes the oldest records of the change feed and the redo log, in small steps. */
import { kernelFamilies } from '../families.js';
import { decodeFeed, positionOf, redoBytesBefore } from './log.js';
import type { Store } from '../store.js';

/** Records removed in one transaction. */
const stepRecords = 128;

/**
 * Trims both logs to their limits; returns the number of removed records. `backedUpLsn`: the redo log up to
 * there is in a backup.
 */
export async function trimLogs(store: Store, backedUpLsn = 0): Promise<number> {
  return (await trimFeed(store)) + (await trimRedo(store, backedUpLsn));
}

function trimFeed(store: Store): Promise<number> {
  const oldestMs = store.nowMs() - store.limits.feedAgeSecondsMax * 1_000;
  const { last, sizeBytes } = store.feedExtent();
  let excess = sizeBytes - store.limits.feedBytesMax;
  return trim(store, kernelFamilies.changes, last, (value) => {
    const old = (decodeFeed(value).items.at(-1)?.atMs ?? 0) < oldestMs;
    const remove = old || excess > 0;
    excess -= value.length;
    return remove;
  });
}

function trimRedo(store: Store, backedUpLsn: number): Promise<number> {
  const { last, sizeBytes } = store.redoExtent();
  // A log that nobody continues, because its first backup was not finished, is of no use.
  if (!store.keepsRedo) return trim(store, kernelFamilies.redo, last, () => true);
  const keepFrom = redoEnd(store) - store.limits.redoBytesMax;
  if (sizeBytes <= store.limits.redoBytesMax && backedUpLsn === 0) return Promise.resolve(0);
  return trim(
    store,
    kernelFamilies.redo,
    last,
    (value, position) => position <= backedUpLsn || redoBytesBefore(value) < keepFrom,
  );
}

/** The running total after the newest record. */
function redoEnd(store: Store): number {
  for (const { value } of store.range(kernelFamilies.redo, { reverse: true, limit: 1 }))
    return redoBytesBefore(value) + value.length;
  return 0;
}

/**
 * Removes from the front while `remove` returns true. The newest record stays: the next number of the
 * feed is derived from it.
 */
async function trim(
  store: Store,
  family: string,
  last: number,
  remove: (value: Buffer, position: number) => boolean,
): Promise<number> {
  let removed = 0;
  for (;;) {
    const step: Buffer[] = [];
    for (const { key, value } of store.range(family, { limit: stepRecords })) {
      if (positionOf(key) >= last || !remove(value, positionOf(key))) break;
      step.push(key);
    }
    if (step.length === 0) return removed;
    await store.transact((tx) => {
      tx.removesRecords = true;
      for (const key of step) tx.delete(family, key);
    });
    removed += step.length;
    if (step.length < stepRecords) return removed;
  }
}
