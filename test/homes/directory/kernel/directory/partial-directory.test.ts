import { mkdir, mkdtemp, readFile, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { listBackups } from '../../../../../src/homes/directory/kernel/backup/chain.js';
import { removeUnfinished } from '../../../../../src/homes/directory/kernel/backup/leftovers.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { beginPartial } from '../../../../../src/homes/directory/kernel/directory/partial-directory.js';
import { kernelPlacements, reshard } from '../../../../../src/homes/directory/kernel/shards/reshard.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

const families = ['test/values'];
let directory: string;
const at = (name: string): string => join(directory, name);
const names = async (): Promise<string[]> => (await readdir(at('backups'))).toSorted();

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-partial-'));
  const kernel = await openKernel({ dataDir: at('data'), families, limits: limitsWith() });
  await kernel.root.transact((tx) => tx.put('test/values', Buffer.from('key'), Buffer.from('value')));
  await backup(kernel, { directory: at('backups'), kind: 'full' });
  await kernel.close();
});

afterEach(() => rm(directory, { recursive: true, force: true }));

const restoreIt = () => restore({ directory: at('backups'), target: at('new'), families });
const reshardIt = () =>
  reshard({
    from: at('data'),
    to: at('new'),
    shards: 2,
    families,
    limits: limitsWith(),
    placements: { ...kernelPlacements, 'test/values': () => 'root' },
    directoryOf: () => [],
  });

test.each([
  ['restoring', restoreIt],
  ['re-sharding', reshardIt],
] as const)('%s leaves a directory alone that only has the name of an unfinished one', async (_, work) => {
  await mkdir(at('new.partial'));
  await writeFile(join(at('new.partial'), 'thesis.txt'), 'four years of work');
  await expect(work()).rejects.toMatchObject({ code: 'already_exists' });
  expect(await readFile(join(at('new.partial'), 'thesis.txt'), 'utf8')).toBe('four years of work');
  await rm(at('new.partial'), { recursive: true });
  await work();
  expect(await readdir(directory)).not.toContain('new.partial');
});

test.each([
  ['restoring', restoreIt],
  ['re-sharding', reshardIt],
] as const)(
  '%s takes the place of an attempt that was cut off, and leaves no mark in what it makes',
  async (_, work) => {
    const { path } = await beginPartial(at('new'));
    await writeFile(join(path, 'half'), '');
    // As if its process had died: the lock is not held.
    await rm(join(path, 'stoa.lock'));
    await work();
    expect(await readdir(at('new'))).toEqual(expect.arrayContaining(['shard-00', 'stoa.json']));
    expect(await readdir(at('new'))).not.toContain('half');
    expect(
      (await readdir(at('new'))).filter((name) => name.includes('partial') || name.includes('lock')),
    ).toEqual([]);
  },
);

test('a directory that another process is writing is not removed', async () => {
  const other = await beginPartial(at('new'));
  await expect(restoreIt()).rejects.toMatchObject({ code: 'locked' });
  await other.discard();
  await restoreIt();
});

test('a target where no directory can be created is refused with a clear error', async () => {
  await expect(restore({ directory: at('backups'), target: '/proc/new', families })).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining('/proc/new cannot be created') as string,
  });
});

test('files that other programs put into the target during a restore are kept', async () => {
  const partial = await beginPartial(at('new'));
  await mkdir(at('new'));
  await writeFile(join(at('new'), 'thesis.txt'), '');
  await expect(partial.finish()).rejects.toMatchObject({ code: 'already_exists' });
  expect(await readdir(at('new'))).toEqual(['thesis.txt']);
});

test('only one of two concurrent restores into a target continues, also over the remains of a third', async () => {
  for (const leftover of [false, true]) {
    if (leftover) await abandon(at('new'));
    const outcomes = await Promise.allSettled([restoreIt(), restoreIt(), restoreIt()]);
    expect(outcomes.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    for (const outcome of outcomes)
      if (outcome.status === 'rejected')
        expect((outcome.reason as { code: string }).code).toMatch(/^(locked|already_exists)$/);
    const kernel = await openKernel({ dataDir: at('new'), families, limits: limitsWith() });
    expect(kernel.root.get('test/values', Buffer.from('key'))?.toString()).toBe('value');
    await kernel.close();
    await rm(at('new'), { recursive: true });
    expect((await readdir(directory)).toSorted()).toEqual(['backups', 'data']);
  }
});

/** Leaves a directory as a process does that dies while it fills it. */
async function abandon(target: string): Promise<string> {
  const { path } = await beginPartial(target);
  await writeFile(join(path, 'shard-00.data'), 'half');
  await rm(join(path, 'stoa.lock'));
  return path;
}

describe('the rest of an interrupted backup', () => {
  const name = '20260101T000000-000Z-full';
  let kernel: Kernel;
  let faults: string[];

  beforeEach(async () => {
    faults = [];
    kernel = await openKernel({
      dataDir: at('data'),
      families,
      limits: limitsWith(),
      onError: (_, about) => faults.push(about),
    });
  });
  afterEach(() => kernel.close());

  test('is not listed as a backup, and the next backup deletes it', async () => {
    const [whole] = (await names()) as [string];
    const path = await abandon(join(at('backups'), name));
    await writeFile(
      join(path, 'backup.json'),
      JSON.stringify({
        ...JSON.parse(await readFile(join(at('backups'), whole, 'backup.json'), 'utf8')),
        name,
      }),
    );
    expect((await listBackups(at('backups'))).map((found) => found.name)).toEqual([whole]);
    const { name: next } = await backup(kernel, { directory: at('backups'), kind: 'incremental' });
    expect(await names()).toEqual([whole, next]);
  });

  test('is deleted after a minute if it has only a lock', async () => {
    const path = join(at('backups'), `${name}.partial`);
    await mkdir(path);
    expect(await removeUnfinished(at('backups'))).toEqual([]);
    await utimes(path, 0, 0);
    expect(await removeUnfinished(at('backups'))).toEqual([`${name}.partial`]);
  });

  test('stays while it is being written, and if another program made it', async () => {
    const other = await beginPartial(join(at('backups'), name));
    await mkdir(join(at('backups'), `${name.replace('full', 'incremental')}.partial`));
    await writeFile(join(at('backups'), `${name.replace('full', 'incremental')}.partial`, 'thesis.txt'), '');
    const before = await names();
    const { name: next } = await backup(kernel, { directory: at('backups'), kind: 'full' });
    expect(await names()).toEqual([...before, next].toSorted());
    await other.finish();
    expect(await names()).toContain(name);
  });

  test('is empty if the disk was full, and the error reports it', async () => {
    const before = await names();
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
    await expect(
      backup(kernel, { directory: at('backups'), kind: 'full', readKey: () => Promise.reject(full) }),
    ).rejects.toMatchObject({ code: 'disk_full', message: expect.stringContaining(at('backups')) as string });
    expect(await names()).toEqual(before);
  });

  test('does not block other backups if it cannot be deleted', async () => {
    const path = await abandon(join(at('backups'), name));
    await mkdir(join(path, 'stoa.lock'));
    await backup(kernel, { directory: at('backups'), kind: 'full' });
    expect(faults).toEqual([expect.stringContaining('removing unfinished backups in')]);
  });
});
