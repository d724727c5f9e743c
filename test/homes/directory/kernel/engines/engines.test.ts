import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { storeConfigDefaults } from '../../../../../src/core/settings/store-config.js';
import { openLmdb } from '../../../../../src/homes/directory/kernel/engines/lmdb.js';
import { openMemory } from '../../../../../src/homes/directory/kernel/engines/memory.js';
import { openRocksdb } from '../../../../../src/homes/directory/kernel/engines/rocksdb/open.js';
import { engineConformance } from './engine-conformance.js';

engineConformance('lmdb', openLmdb);
engineConformance('lmdb without sync', (config, families) =>
  openLmdb({ ...config, sync_writes: false }, families),
);
engineConformance('rocksdb', openRocksdb);
engineConformance('rocksdb past its cache', (config, families) =>
  openRocksdb({ ...config, scattered_families: families }, families),
);
engineConformance('memory', openMemory, false);

test('rocksdb reads a bounded number of rows and bytes for its statistics, and marks incomplete counts', async () => {
  const families = Array.from({ length: 10 }, (_, index) => `family-${index}`);
  const directory = await mkdtemp(join(tmpdir(), 'stoa-stats-'));
  const engine = await openRocksdb({ ...storeConfigDefaults, data_dir: directory }, ['large', ...families]);
  const statsOf = (names: readonly string[]) => names.map((name) => engine.stats().families[name]);
  const fill = (family: string, rows: number, valueBytes: number) =>
    engine.commit(
      Array.from({ length: rows }, (_, row) => ({
        family,
        key: Buffer.from(`k${row}`),
        value: Buffer.alloc(valueBytes),
      })),
    );
  try {
    for (const family of families) await fill(family, 900, 10);
    const counted = statsOf(families);
    expect(counted.reduce((sum, stats) => sum + (stats?.entries ?? 0), 0)).toBeLessThanOrEqual(5_000);
    expect(counted.map((stats) => stats?.estimated === false)).toEqual(
      counted.map((stats) => stats?.entries === 900),
    );
    await fill('large', 20, 1024 * 1024);
    const [large] = statsOf(['large']);
    expect(large).toMatchObject({ estimated: true });
    expect(large?.sizeBytes).toBeLessThan(6 * 1024 * 1024);
  } finally {
    await engine.close();
    await rm(directory, { recursive: true });
  }
});

test('lmdb makes the databases of all families of a new directory in one transaction', async () => {
  const families = Array.from({ length: 50 }, (_, index) => `family-${index}`);
  const directory = await mkdtemp(join(tmpdir(), 'stoa-families-'));
  const engine = await openLmdb({ ...storeConfigDefaults, data_dir: directory }, families);
  await engine.close();
  const file = await readFile(join(directory, 'data.mdb'));
  // The two meta pages have the number of the newest transaction here.
  expect([0, 4096].map((page) => Number(file.readBigUInt64LE(page + 152))).toSorted()).toEqual([0, 1]);
  await rm(directory, { recursive: true });
});

test('the store is configured by the names and defaults of the seed', () => {
  expect(storeConfigDefaults).toEqual({
    data_dir: './data',
    sync_writes: true,
    max_open_files: 1000,
    block_cache_bytes: 128 * 1024 * 1024,
  });
});
