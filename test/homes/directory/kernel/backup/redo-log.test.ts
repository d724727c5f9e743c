import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { withoutBackups } from '../../../../../src/homes/directory/kernel/backup/marks.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import type { EngineName } from '../../../../../src/core/settings/store-config.js';
import { kernelFamilies } from '../../../../../src/homes/directory/kernel/families.js';
import type { Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { encodeRedo, positionKey } from '../../../../../src/homes/directory/kernel/feed/log.js';
import { kernelPlacements, reshard } from '../../../../../src/homes/directory/kernel/shards/reshard.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

const families = ['test/values'];
const [values] = families as [string];
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-redo-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

const open = (engine: EngineName, name = 'data'): Promise<Kernel> =>
  openKernel({ dataDir: join(directory, name), engine, families, limits: limitsWith() });

const backUp = (kernel: Kernel, kind: 'full' | 'incremental') =>
  backup(kernel, { directory: join(directory, 'backups'), kind });

const write = ({ root }: Kernel, key: string): Promise<void> =>
  root.transact((tx) => tx.put(values, Buffer.from(key), Buffer.from('v')));

const keys = ({ root }: Kernel): string[] => Array.from(root.range(values, {}), ({ key }) => key.toString());

const logged = ({ root }: Kernel): number => Array.from(root.range(kernelFamilies.redo, {})).length;

describe.each(['lmdb', 'rocksdb'] as const)('the redo log on %s', (engine) => {
  it('is empty before the first backup, and the transactions are numbered all the same', async () => {
    const first = await open(engine);
    for (const key of ['a', 'b', 'c']) await write(first, key);
    const { lsn } = first.root;
    expect(lsn).toBeGreaterThan(3);
    await first.close();
    const second = await open(engine);
    await write(second, 'd');
    expect(second.root.lsn).toBeGreaterThan(lsn);
    expect(logged(second)).toBe(0);
    await second.close();
  });

  it('has every transaction after the snapshot of the first backup, also after a restart', async () => {
    const first = await open(engine);
    const stop = new AbortController();
    const writers = Array.from({ length: 16 }, async (_, writer) => {
      for (let round = 0; !stop.signal.aborted; round += 1) await write(first, `${writer}-${round}`);
    });
    for (let key = 0; key < 2_000; key += 1) void write(first, `before-${key}`);
    await backUp(first, 'full');
    stop.abort();
    await Promise.all(writers);
    await first.close();
    const second = await open(engine);
    await write(second, 'after the restart');
    const { lsn } = second.root;
    await backUp(second, 'incremental');
    const written = keys(second);
    await second.close();
    await restore({ directory: join(directory, 'backups'), target: join(directory, 'restored'), families });
    const restored = await open(engine, 'restored');
    expect(keys(restored)).toEqual(written);
    expect(restored.root.lsn).toBeGreaterThanOrEqual(lsn);
    await restored.close();
  });

  it('is not taken for whole if the process ended before it noted its first backup', async () => {
    const first = await open(engine);
    await write(first, 'a');
    await backUp(first, 'full');
    // As if the process had been killed right after the backup got its name.
    await first.root.engine.commit(withoutBackups);
    await first.close();
    const second = await open(engine);
    await write(second, 'b');
    await expect(backUp(second, 'incremental')).rejects.toMatchObject({ code: 'conflict' });
    await second.trim();
    expect(logged(second)).toBe(0);
    await backUp(second, 'full');
    await write(second, 'c');
    expect((await backUp(second, 'incremental')).shards[0]?.entries).toBeGreaterThan(0);
    await second.close();
  });
});

it('the redo log of a directory that was copied to other shards has what the copy finished in it', async () => {
  const options = { families, limits: limitsWith() };
  const first = await openKernel({ ...options, dataDir: join(directory, 'data'), shards: 2 });
  await backUp(first, 'full');
  const other = first.stores[1] as Store;
  const left = { family: values, key: Buffer.from('left'), value: Buffer.from('v') };
  const unfinished = { lsn: other.lsn + 1, atMs: Date.now(), commit: null, operations: [left] };
  // As if the process had been killed after shard 00 had its part of a write over both shards.
  await first.root.transact((tx) =>
    tx.put(
      kernelFamilies.intents,
      Buffer.concat([Buffer.of(0, 1), positionKey(unfinished.lsn)]),
      encodeRedo(0, [unfinished]),
    ),
  );
  await first.close();
  await reshard({
    ...options,
    from: join(directory, 'data'),
    to: join(directory, 'sharded'),
    shards: 1,
    placements: { ...kernelPlacements, [values]: () => 'root' },
    directoryOf: () => [],
  });
  const again = await openKernel({ ...options, dataDir: join(directory, 'data') });
  const increment = await backUp(again, 'incremental');
  expect(increment.shards[1]?.entries).toBe(1);
  await again.close();
});
