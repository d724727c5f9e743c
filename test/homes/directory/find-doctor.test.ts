/** What `stoa doctor` finds in the search index of a data directory, and what `stoa reindex` makes of it. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  findFamilies as families,
  decodeSegment,
  encodeSegment,
  messagesPartition,
} from '../../../src/homes/directory/find/rows.js';
import { dataFamilies } from '../../../src/homes/directory/datastore/rows.js';
import type { DirectoryFind } from '../../../src/homes/directory/find/find.js';
import type { Store } from '../../../src/homes/directory/kernel/store.js';
import type { Transaction } from '../../../src/homes/directory/kernel/transaction.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import { kernelOf } from '../../kernel-of.js';
import { ada, expectMended, fillIndex, findings, seen } from '../../find/index-at-work.js';

describe.each(['lmdb', 'rocksdb'] as const)('the search index on %s', (engine) => {
  let directory: string;
  let stoa: Stoa;
  let store: Store;
  let index: DirectoryFind;
  let before: unknown[];
  // Scores depend on the age of things, so the clock stands still.
  let nowMs = Date.now();

  const open = async (): Promise<void> => {
    stoa = await openStoa({
      data: directory,
      engine,
      clock: () => nowMs,
      sweepIntervalMs: 3_600_000,
    });
    store = kernelOf(stoa).root;
    index = stoa.find.port as DirectoryFind; // The home of this Stoa is a directory.
  };
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'stoa-find-doctor-'));
    await open();
    await fillIndex(stoa, () => index.work.settle());
    before = await seen(stoa);
  });
  afterEach(async () => {
    expect(await findings(stoa, true)).toEqual([]);
  });
  afterAll(async () => {
    await stoa.close();
    await rm(directory, { recursive: true, force: true });
  });

  const rows = (family: string) =>
    Array.from(store.range(family, {}), ({ key, value }) => ({
      key: Buffer.from(key),
      value: Buffer.from(value),
    }));
  const plant = (change: (tx: Transaction) => void) => store.transact(change);
  const first = (family: string) => rows(family)[0] as { key: Buffer; value: Buffer };
  /** Writes the state of each segment as `change` makes it. */
  const restate = (change: (row: ReturnType<typeof decodeSegment>) => ReturnType<typeof decodeSegment>) =>
    plant((tx) => {
      for (const { key, value } of rows(families.segments))
        tx.put(families.segments, key, encodeSegment(change(decodeSegment(key, value))));
    });

  it('is right after writes, deletions and filing', async () => {
    expect(await findings(stoa)).toEqual([]);
  });

  it('a mark that got lost', async () => {
    await plant((tx) => {
      for (const { key } of rows(families.marks)) tx.delete(families.marks, key);
    });
    await expectMended(stoa, /does not have the document "late"/, before);
    await index.work.settle();
  });

  it('a segment that got lost, and its blocks without it', async () => {
    const { key } = first(families.segments);
    await plant((tx) => tx.delete(families.segments, key));
    await expectMended(stoa, /rows belong to a segment .* that does not exist[^]*does not have/, before);
    await index.work.settle();
  });

  it('words that got lost', async () => {
    await plant((tx) => tx.delete(families.blocks, first(families.blocks).key));
    await expectMended(stoa, /has other words of/, before);
    await index.work.settle();
  });

  it('an entry that came back to life', async () => {
    const [row] = rows(families.dead);
    // Written again, so that a segment has dead entries.
    await stoa.data.set(ada, 'plans', 'key-1', { text: 'walrus number one', title: 'ice' });
    await index.work.file(store, first(families.segments).key.subarray(0, 32));
    const dead =
      rows(families.dead).find(({ key }) => row === undefined || !key.equals(row.key)) ??
      first(families.dead);
    await plant((tx) => tx.put(families.dead, dead.key, Buffer.alloc(dead.value.length)));
    const found = (await findings(stoa)).map(({ problem }) => problem).join('\n');
    expect(found).toMatch(/counts \d+ dead entries[^]*"key-1" of plans 2 times/);
    await findings(stoa, true);
    before = await seen(stoa);
    await index.work.settle();
  });

  it('an entry whose document is gone, and a document of another version', async () => {
    const document = rows(dataFamilies.documents).find(({ key }) => key.includes('key-4')) as {
      key: Buffer;
      value: Buffer;
    };
    await plant((tx) => tx.delete(dataFamilies.documents, document.key));
    const problems = (await findings(stoa)).map(({ problem }) => problem).join('\n');
    expect(problems).toMatch(/has the document "key-4" of notes, which does not exist/);
    await plant((tx) => tx.put(dataFamilies.documents, document.key, document.value));
    expect(await findings(stoa)).toEqual([]);
  });

  it('counts of a segment that are wrong, and an expiry that is not noted', async () => {
    await restate((row) => ({ ...row, entries: row.entries + 1 }));
    await expectMended(stoa, /counts \d+ entries and has/, before);
    await stoa.data.set(ada, 'notes', 'brief', 'short', { ttl: 3_600 });
    await index.work.settle();
    before = await seen(stoa);
    await restate((row) => ({ ...row, nextExpiryMs: null }));
    await expectMended(stoa, /does not note when its next entry expires/, before);
  });

  it('a segment that cannot be read', async () => {
    const [segment] = rows(families.catalogs);
    await stoa.close();
    await open();
    await plant((tx) => tx.put(families.catalogs, segment?.key as Buffer, Buffer.of(0xff, 0x01)));
    await expectMended(stoa, /cannot be read/, before);
    await index.work.settle();
  });

  it('text that stayed longer than its time', async () => {
    await stoa.data.set(ada, 'plans', 'key-3', { text: 'walrus number three', title: 'ice' });
    await index.work.file(store, first(families.segments).key.subarray(0, 32));
    before = await seen(stoa);
    nowMs += 2 * 3_600_000;
    const problems = (await findings(stoa)).map(({ problem }) => problem).join('\n');
    expect(problems).toMatch(/more than 3600 s \(findDeadSecondsMax\)/);
    await findings(stoa, true);
    expect(await findings(stoa)).toEqual([]);
  });

  it('is made again by reindex, which two callers share', async () => {
    before = await seen(stoa);
    await plant((tx) => {
      for (const family of [
        families.blocks,
        families.segments,
        families.facts,
        families.dead,
        families.marks,
      ])
        for (const { key } of rows(family)) tx.delete(family, key);
      for (const { key } of rows(families.catalogs)) tx.delete(families.catalogs, key);
    });
    const steps: number[] = [];
    const all = { user: null, namespace: null };
    const [one, two] = await Promise.all([
      index.reindex(all, ({ done }) => steps.push(done)),
      index.reindex(all, () => undefined),
    ]);
    expect(two).toBe(one);
    expect(one.filed).toBeGreaterThan(30);
    expect(steps).toEqual(steps.toSorted((a, b) => a - b));
    expect(rows(families.reindex)).toEqual([]);
    expect(await findings(stoa)).toEqual([]);
    expect(await seen(stoa)).toEqual(before);
  });

  it('continues a reindex after a restart', async () => {
    const scope = { user: null, namespace: null };
    const half = { total: 34, done: 0, shards: 1, shard: 0, kind: 'data', after: null };
    await plant((tx) => {
      const key = Buffer.concat([messagesPartition, Buffer.from(JSON.stringify(scope))]);
      tx.put(families.reindex, key, Buffer.from(JSON.stringify(half)));
      for (const row of rows(families.blocks)) tx.delete(families.blocks, row.key);
    });
    await stoa.close();
    await open();
    await index.reindex(scope, () => undefined);
    expect(rows(families.reindex)).toEqual([]);
    expect(await seen(stoa)).toEqual(before);
  });
});
