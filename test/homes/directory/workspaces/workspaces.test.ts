/** The conformance suite of workspaces on every engine, and over shards. */
import * as vitest from 'vitest';
import { type OpenBench, workspacesConformance } from '../../../../src/workspaces/conformance/index.js';
import { openDirectoryBench } from './fixture.js';

const backends: Record<string, OpenBench> = {
  memory: (limits) => openDirectoryBench('memory', limits),
  lmdb: (limits) => openDirectoryBench('lmdb', limits),
  rocksdb: (limits) => openDirectoryBench('rocksdb', limits),
  'memory over 3 shards': (limits) => openDirectoryBench('memory', limits, 3),
};

for (const [name, open] of Object.entries(backends)) workspacesConformance(vitest, { name, open });
