import { openLmdb } from '../../src/kernel/engines/lmdb.js';
import { openMemory } from '../../src/kernel/engines/memory.js';
import { openRocksdb } from '../../src/kernel/engines/rocksdb.js';
import { engineConformance } from './engine-conformance.js';

engineConformance('lmdb', openLmdb);
engineConformance('lmdb without sync', (config, families) => openLmdb({ ...config, sync_writes: false }, families));
engineConformance('rocksdb', openRocksdb);
engineConformance('rocksdb past its cache', (config, families) => openRocksdb({ ...config, scattered_families: families }, families));
engineConformance('memory', openMemory, false);
