/** A restore to a point has each write over two shards in both of them or in neither. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import type { RestorePoint } from '../../../../../src/operations/model.js';

const families = ['test/values'];
const [values] = families as [string];
const start = Date.parse('2026-01-01T10:00:00Z');
let directory: string;
let kernel: Kernel;
let nowMs: number;

beforeEach(async () => {
  nowMs = start;
  directory = await mkdtemp(join(tmpdir(), 'stoa-restore-shards-'));
  kernel = await openKernel({
    dataDir: join(directory, 'data'),
    shards: 3,
    families,
    limits: limitsWith(),
    clock: () => nowMs,
  });
  await backUp('full');
});

afterEach(async () => {
  await kernel.close();
  await rm(directory, { recursive: true, force: true });
});

const shard = (number: number): Store => kernel.stores[number] as Store;

const backUp = (kind: 'full' | 'incremental') =>
  backup(kernel, { directory: join(directory, 'backups'), kind });

const change = (id: string) => ({ domain: 'data', kind: 'document.set', id, user: 'u', version: 1 }) as const;

async function pair(own: Store, key: string): Promise<void> {
  await kernel.transactBoth(own, (tx, root) => {
    tx.put(values, Buffer.from(key), Buffer.from('own'));
    root.put(values, Buffer.from(key), Buffer.from('root'));
    tx.change(change(key));
  });
}

const single = (store: Store, key: string): Promise<void> =>
  store.transact((tx) => {
    tx.put(values, Buffer.from(key), Buffer.from('single'));
    tx.change(change(key));
  });

/** The keys in each shard after the restore, and after the start that finishes what is left. */
async function restoredTo(to: RestorePoint): Promise<string[][]> {
  await backUp('incremental');
  const target = join(directory, 'restored');
  await restore({ directory: join(directory, 'backups'), target, to, families });
  const restored = await openKernel({ dataDir: target, families, limits: limitsWith() });
  const keys = restored.stores.map((store) =>
    Array.from(store.range(values, {}), ({ key }) => key.toString()),
  );
  await restored.close();
  return keys;
}

it('at a position', async () => {
  await pair(shard(1), 'before');
  const { position } = kernel.feed.read({});
  await pair(shard(1), 'after');
  await single(shard(1), 'later');
  expect(await restoredTo({ position })).toEqual([['before'], ['before'], []]);
});

it('at a time, also if the clock was set back', async () => {
  await pair(shard(1), 'a');
  nowMs = start + 3_600_000;
  await single(shard(1), 'b');
  nowMs = start + 1_000;
  await pair(shard(1), 'c');
  // Behind the write that is cut off in shard 00, so it is cut off too.
  await pair(shard(2), 'd');
  nowMs = start + 120_000;
  expect(await restoredTo({ timeMs: start + 60_000 })).toEqual([['a'], ['a'], []]);
});
