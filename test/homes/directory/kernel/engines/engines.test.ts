import { expect, test } from 'vitest';
import { storeConfigDefaults } from '../../../../../src/core/settings/store-config.js';
import { openLmdb } from '../../../../../src/homes/directory/kernel/engines/lmdb.js';
import { openMemory } from '../../../../../src/homes/directory/kernel/engines/memory.js';
import { openRocksdb } from '../../../../../src/homes/directory/kernel/engines/rocksdb.js';
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

test('the store is configured by the names and defaults of the seed', () => {
  expect(storeConfigDefaults).toEqual({
    data_dir: './data',
    sync_writes: true,
    max_open_files: 1000,
    block_cache_bytes: 128 * 1024 * 1024,
  });
});
