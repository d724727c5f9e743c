import { mkdtemp, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { userKey } from '../../../../../src/identity/user-key.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import {
  type Placement,
  kernelPlacements,
  reshard,
} from '../../../../../src/homes/directory/kernel/shards/reshard.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

const families = ['test/owned', 'test/shared'];
const placements: Record<string, Placement> = {
  ...kernelPlacements,
  'test/owned': ({ key }) => key.subarray(0, 32),
  'test/shared': () => 'root',
};
const users = Array.from({ length: 50 }, (_, index) => `user ${index}`);
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-reshard-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const open = (name: string, shards?: number) =>
  openKernel({ dataDir: join(directory, name), shards, families, limits: limitsWith() });

async function fill(kernel: Kernel): Promise<void> {
  for (const user of users) {
    const owner = userKey(user);
    await kernel.root.transact((tx) => kernel.enterIn(tx, `id of ${user}`, owner));
    await kernel.storeOf(owner).transact((tx) => {
      for (let index = 0; index < 20; index += 1)
        tx.put('test/owned', Buffer.concat([owner, Buffer.from([index])]), Buffer.from(`id of ${user}`));
      tx.schedule({ atMs: 1e15, kind: 'test', reference: owner });
      tx.change({ domain: 'data', kind: 'document.set', id: user, user, version: 1 });
    });
  }
  await kernel.root.transact((tx) => tx.put('test/shared', Buffer.from('room'), Buffer.from('global')));
}

function check(kernel: Kernel): void {
  for (const user of users) {
    const owner = userKey(user);
    const store = kernel.storeOf(owner);
    expect([
      ...store.range('test/owned', { gte: owner, lte: Buffer.concat([owner, Buffer.from([255])]) }),
    ]).toHaveLength(20);
    expect(kernel.locate(`id of ${user}`)).toBe(store);
  }
  expect(kernel.root.get('test/shared', Buffer.from('room'))?.toString()).toBe('global');
}

const run = (from: string, to: string, shards: number) =>
  reshard({
    from: join(directory, from),
    to: join(directory, to),
    shards,
    families,
    limits: limitsWith(),
    placements,
    directoryOf: (family, { value }) => (family === 'test/owned' ? [value.toString()] : []),
  });

describe('re-sharding', () => {
  it('splits one shard into four and joins them again without a loss', async () => {
    const kernel = await open('one');
    await fill(kernel);
    await kernel.close();
    const spread = await run('one', 'four', 4);
    expect(spread.entries).toBe(50 * 20 + 1);
    const four = await open('four', 4);
    check(four);
    expect(new Set(users.map((user) => four.storeOf(userKey(user)))).size).toBe(4);
    await four.close();
    const gathered = await run('four', 'again', 1);
    expect(gathered.hash).toBe(spread.hash);
    const again = await open('again', 1);
    check(again);
    await again.close();
  });

  it('refuses a directory that is open, and one that exists', async () => {
    const kernel = await open('one');
    await expect(run('one', 'four', 4)).rejects.toMatchObject({ code: 'locked' });
    await kernel.close();
    await expect(run('one', 'one', 4)).rejects.toMatchObject({ code: 'already_exists' });
    await expect(run('nowhere', 'four', 4)).rejects.toMatchObject({ code: 'not_found' });
  });
});

describe('a data directory that has lost something', () => {
  it('an empty database file is refused, not treated as an empty store', async () => {
    const kernel = await open('data');
    await fill(kernel);
    await kernel.close();
    await truncate(join(directory, 'data', 'shard-00', 'db', 'data.mdb'), 0);
    await expect(open('data')).rejects.toMatchObject({ code: 'damaged_data' });
  });

  it('data without its stoa.json is refused, not treated as a new directory', async () => {
    const kernel = await open('data');
    await fill(kernel);
    await kernel.close();
    await rm(join(directory, 'data', 'stoa.json'));
    await expect(open('data')).rejects.toThrow('stoa.json is missing');
  });
});
