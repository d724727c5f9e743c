/** The conformance suite of the registry in a data directory, with one shard and with several. */
import * as vitest from 'vitest';
import { agentTests } from '../../../../src/registry/conformance/agents.js';
import { registryConformance } from '../../../../src/registry/conformance/index.js';
import { openRegistry } from './open-registry.js';

for (const { engine, shards, histories } of [
  { engine: 'memory', shards: 1, histories: 30 },
  { engine: 'memory', shards: 4, histories: 15 },
  { engine: 'lmdb', shards: 1, histories: 5 },
] as const)
  registryConformance(vitest, {
    name: `${engine} with ${shards} shard(s)`,
    open: (limits = {}) => openRegistry({ engine, shards, limits }),
    histories,
  });

// RocksDB, and four databases of LMDB, open slowly and differ only below the kernel.
agentTests(vitest, { name: 'rocksdb', open: (limits = {}) => openRegistry({ engine: 'rocksdb', limits }) });
agentTests(vitest, {
  name: 'lmdb with 4 shard(s)',
  open: (limits = {}) => openRegistry({ engine: 'lmdb', shards: 4, limits }),
});
