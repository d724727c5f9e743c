import { afterAll, describe, expect, it } from 'vitest';
import { backedUpLsn, putBackupMark } from '../../../../../src/homes/directory/kernel/backup/marks.js';
import { kernelFamilies } from '../../../../../src/homes/directory/kernel/families.js';
import { decodeFeed, decodeRedo } from '../../../../../src/homes/directory/kernel/feed/log.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import { trimLogs } from '../../../../../src/homes/directory/kernel/feed/trim.js';
import { bytes, change, items, openStore, removeDirectories, text } from '../open-store.js';

afterAll(removeDirectories);

const engines = ['memory', 'lmdb', 'rocksdb'] as const;

async function announce(store: Store, count: number, value = 'v'): Promise<void> {
  for (let number = 0; number < count; number += 1) {
    await store.transact((tx) => {
      tx.put(items, bytes(`k${number}`), bytes(value));
      tx.change(change(`k${number}`));
    });
  }
}

function seqs(store: Store): number[] {
  return [...store.range(kernelFamilies.changes, {})].flatMap(({ value }) =>
    decodeFeed(value).items.map(({ seq }) => seq),
  );
}

function lsns(store: Store): number[] {
  return [...store.range(kernelFamilies.redo, {})].flatMap(({ value }) =>
    decodeRedo(value).items.map(({ lsn }) => lsn),
  );
}

describe.each(engines)('trimming on %s', (engine) => {
  it('removes only commits that are too old from the feed', async () => {
    let nowMs = 0;
    const { store } = await openStore({ engine, clock: () => nowMs, limits: { feedAgeSecondsMax: 10 } });
    await announce(store, 3);
    nowMs = 5_000;
    await announce(store, 2);
    nowMs = 10_001;
    expect(await trimLogs(store)).toBe(3);
    expect(seqs(store)).toEqual([4, 5]);
    expect(store.feedExtent()).toMatchObject({ first: 4, last: 5 });
    expect(text(store, 'k0')).toBe('v');
    await store.close();
  });

  it('removes the oldest commits until the feed fits its size', async () => {
    const { store } = await openStore({ engine, limits: { feedBytesMax: 1_000 } });
    await announce(store, 160);
    await trimLogs(store);
    const kept = seqs(store);
    expect(kept.at(-1)).toBe(160);
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, index) => 161 - kept.length + index));
    expect(kept.length).toBeGreaterThan(3);
    const sizeBytes = [...store.range(kernelFamilies.changes, {})].reduce(
      (sum, { value }) => sum + value.length,
      0,
    );
    expect(sizeBytes).toBeLessThanOrEqual(1_000);
    expect(store.feedExtent().sizeBytes).toBe(sizeBytes);
    expect(await trimLogs(store)).toBe(0);
    await store.close();
  });

  it('removes the oldest records until the redo log fits its size', async () => {
    const { store } = await openStore({ engine, limits: { redoBytesMax: 10_000 } });
    await announce(store, 160, 'x'.repeat(500));
    expect(await trimLogs(store)).toBeGreaterThan(120);
    const kept = lsns(store);
    expect(kept.at(-1)).toBe(store.lsn);
    expect(kept).toEqual(
      Array.from({ length: kept.length }, (_, index) => store.lsn + 1 - kept.length + index),
    );
    expect(store.redoExtent().sizeBytes).toBeLessThanOrEqual(10_000);
    expect(store.redoExtent().first).toBe(kept[0]);
    await store.close();
  });

  it('keeps the redo log until it is backed up, within its size', async () => {
    const { store } = await openStore({ engine });
    await announce(store, 20);
    expect(await trimLogs(store)).toBe(0);
    expect(await trimLogs(store, 15)).toBe(15);
    expect(lsns(store)).toEqual([16, 17, 18, 19, 20, 21]);
    await store.close();
  });

  it('waits for the slowest chain of increments, but not for an abandoned one', async () => {
    let nowMs = 0;
    const { store } = await openStore({ engine, clock: () => nowMs });
    await store.transact((tx) => putBackupMark(tx, '/given-up', [3]));
    await store.transact((tx) => putBackupMark(tx, '/in-use', [9]));
    expect(backedUpLsn(store, 0)).toBe(3);
    nowMs = 31 * 24 * 3_600_000;
    await store.transact((tx) => putBackupMark(tx, '/in-use', [12]));
    expect(backedUpLsn(store, 0)).toBe(12);
    await store.close();
  });

  it('keeps the numbering when everything is too old, also over reopening', async () => {
    let nowMs = 0;
    const clock = () => nowMs;
    const limits = { feedAgeSecondsMax: 1, feedBytesMax: 1, redoBytesMax: 1 };
    const { store, directory } = await openStore({ engine, clock, limits });
    await announce(store, 10);
    nowMs = 1_000_000;
    for (let round = 0; round < 3; round += 1) await trimLogs(store);
    expect(seqs(store)).toEqual([10]);
    const lsn = store.lsn;
    await announce(store, 1);
    expect([store.sequence, store.lsn]).toEqual([11, lsn + 1]);
    await store.close();
    if (engine === 'memory') return;
    const reopened = await openStore({ engine, directory, clock, limits });
    expect([reopened.store.sequence, reopened.store.lsn]).toEqual([11, lsn + 1]);
    await trimLogs(reopened.store);
    await announce(reopened.store, 1);
    expect(reopened.store.sequence).toBe(12);
    await reopened.store.close();
  });

  it('runs beside writers without touching what they write', async () => {
    const { store } = await openStore({ engine, limits: { feedBytesMax: 2_000, redoBytesMax: 2_000 } });
    const stop = new AbortController();
    const trimming = (async () => {
      while (!stop.signal.aborted) {
        await trimLogs(store);
        await new Promise((resolve) => setImmediate(resolve));
      }
    })();
    await Promise.all(Array.from({ length: 8 }, () => announce(store, 40)));
    stop.abort();
    await trimming;
    const kept = seqs(store);
    expect(store.sequence).toBe(320);
    expect(kept).toEqual(Array.from({ length: kept.length }, (_, index) => 321 - kept.length + index));
    await store.close();
  });
});
