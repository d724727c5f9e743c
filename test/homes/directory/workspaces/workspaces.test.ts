/** The conformance suite of workspaces in a data directory, with one shard and with several. */
import * as vitest from 'vitest';
import { claimTests } from '../../../../src/workspaces/conformance/claims.js';
import { type OpenBench, workspacesConformance } from '../../../../src/workspaces/conformance/index.js';
import { openDirectoryBench } from './fixture.js';

const backends: Record<string, OpenBench> = {
  memory: (limits) => openDirectoryBench('memory', limits),
  lmdb: (limits) => openDirectoryBench('lmdb', limits),
  'memory over 3 shards': (limits) => openDirectoryBench('memory', limits, 3),
};

for (const [name, open] of Object.entries(backends)) workspacesConformance(vitest, { name, open });

// RocksDB opens slowly, and differs only below the kernel.
claimTests(vitest, 'rocksdb', (limits) => openDirectoryBench('rocksdb', limits));
