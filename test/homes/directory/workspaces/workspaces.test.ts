/** The conformance suite of workspaces on every engine, and over shards. */
import * as vitest from 'vitest';
import { type OpenBench, workspacesConformance } from '../../../../src/workspaces/conformance/index.js';
import { openEmbedded } from './fixture.js';

const backends: Record<string, OpenBench> = {
  memory: (limits) => openEmbedded('memory', limits),
  lmdb: (limits) => openEmbedded('lmdb', limits),
  rocksdb: (limits) => openEmbedded('rocksdb', limits),
  'memory over 3 shards': (limits) => openEmbedded('memory', limits, 3),
};

for (const [name, open] of Object.entries(backends)) workspacesConformance(vitest, { name, open });
