import { kernelOf } from '../kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { directoryFamilies } from '../../src/homes/directory/families.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Stoa, openStoa } from '../../src/index.js';
import { backup } from '../../src/homes/directory/kernel/backup/backup.js';
import { restore } from '../../src/homes/directory/kernel/backup/restore.js';

const ada = operatorCaller('ada');
const dayMs = 24 * 3_600_000;
let directory: string;
let nowMs = Date.now();

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-leases-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const at = (name: string) => join(directory, name);
const open = (name: string): Promise<Stoa> => openStoa({ data: at(name), clock: () => nowMs });

it.each(['full', 'incremental'] as const)(
  'a lease that was live when the %s backup was made is live in what is restored from it',
  async (kind) => {
    const [backups, target] = [at(`${kind}-backups`), at(`${kind}-restored`)];
    const stoa = await open(kind);
    const { agent_id } = await stoa.registry.createAgent(ada, { name: 'scout' });
    if (kind === 'incremental') await backup(kernelOf(stoa), { directory: backups, kind: 'full' });
    nowMs += 3_600_000;
    const { lease } = await stoa.registry.heartbeat(ada, agent_id, { holder: 'node-1' });
    nowMs += 20_000;
    await backup(kernelOf(stoa), { directory: backups, kind });
    await stoa.close();
    nowMs += dayMs;
    await restore({ directory: backups, target, families: directoryFamilies });
    const restored = await open(`${kind}-restored`);
    try {
      expect(await restored.registry.getAgent(ada, agent_id)).toMatchObject({
        presence: 'live',
        lease: { holder: 'node-1', fence: lease.fence },
      });
      nowMs += 39_000;
      expect(await restored.registry.getAgent(ada, agent_id)).toMatchObject({ presence: 'live' });
      nowMs += 2_000;
      expect(await restored.registry.getAgent(ada, agent_id)).toMatchObject({ presence: 'lapsed' });
    } finally {
      await restored.close();
    }
  },
);
