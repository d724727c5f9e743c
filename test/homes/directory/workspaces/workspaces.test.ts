/** The conformance suite of workspaces on every engine, and over shards. */
import { describeHolders } from '../../../workspaces/conformance-holders.js';
import { describeSecrets } from '../../../workspaces/conformance-secrets.js';
import { describeSessions } from '../../../workspaces/conformance-sessions.js';
import { describeTasks } from '../../../workspaces/conformance-tasks.js';
import { describeWrites } from '../../../workspaces/conformance-writes.js';
import { type OpenBench, openEmbedded } from '../../../workspaces/fixture.js';

const backends: Record<string, OpenBench> = {
  memory: (limits) => openEmbedded('memory', limits),
  lmdb: (limits) => openEmbedded('lmdb', limits),
  rocksdb: (limits) => openEmbedded('rocksdb', limits),
  'memory over 3 shards': (limits) => openEmbedded('memory', limits, 3),
};

for (const [name, open] of Object.entries(backends)) {
  describeHolders(name, open);
  describeSessions(name, open);
  describeTasks(name, open);
  describeSecrets(name, open);
  describeWrites(name, open);
}
