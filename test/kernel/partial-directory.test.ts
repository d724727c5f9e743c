import { mkdir, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { backup } from '../../src/kernel/backup.js';
import { openKernel } from '../../src/kernel/kernel.js';
import { beginPartial } from '../../src/kernel/partial-directory.js';
import { kernelPlacements, reshard } from '../../src/kernel/reshard.js';
import { restore } from '../../src/kernel/restore.js';
import { limitsWith } from '../../src/limits.js';

const families = ['test/values'];
let directory: string;
const at = (name: string): string => join(directory, name);

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-partial-'));
  const kernel = await openKernel({ dataDir: at('data'), families, limits: limitsWith() });
  await kernel.root.transact((tx) => tx.put('test/values', Buffer.from('key'), Buffer.from('value')));
  await backup(kernel, { directory: at('backups'), kind: 'full' });
  await kernel.close();
});

afterEach(() => rm(directory, { recursive: true, force: true }));

const restoreIt = () => restore({ directory: at('backups'), target: at('new'), families });
const reshardIt = () => reshard({ from: at('data'), to: at('new'), shards: 2, families, placements: { ...kernelPlacements, 'test/values': () => 'root' }, directoryOf: () => [] });

test.each([['restoring', restoreIt], ['re-sharding', reshardIt]] as const)('%s leaves a directory alone that only has the name of an unfinished one', async (_, work) => {
  await mkdir(at('new.partial'));
  await writeFile(join(at('new.partial'), 'thesis.txt'), 'four years of work');
  await expect(work()).rejects.toMatchObject({ code: 'already_exists' });
  expect(await readFile(join(at('new.partial'), 'thesis.txt'), 'utf8')).toBe('four years of work');
  await rm(at('new.partial'), { recursive: true });
  await work();
  expect(await readdir(directory)).not.toContain('new.partial');
});

test.each([['restoring', restoreIt], ['re-sharding', reshardIt]] as const)('%s takes the place of an attempt that was cut off, and leaves no mark in what it makes', async (_, work) => {
  const { path } = await beginPartial(at('new'));
  await writeFile(join(path, 'half'), '');
  // As if its process had died: nobody holds the lock.
  await rm(join(path, 'stoa.lock'));
  await work();
  expect(await readdir(at('new'))).toEqual(expect.arrayContaining(['shard-00', 'stoa.json']));
  expect(await readdir(at('new'))).not.toContain('half');
  expect((await readdir(at('new'))).filter((name) => name.includes('partial') || name.includes('lock'))).toEqual([]);
});

test('a directory that another process fills is not taken away from it', async () => {
  const other = await beginPartial(at('new'));
  await expect(restoreIt()).rejects.toMatchObject({ code: 'locked' });
  await other.discard();
  await restoreIt();
});

test('what somebody put into the target meanwhile is kept', async () => {
  const partial = await beginPartial(at('new'));
  await mkdir(at('new'));
  await writeFile(join(at('new'), 'thesis.txt'), '');
  await expect(partial.finish()).rejects.toThrow(/ENOTEMPTY/);
  expect(await readdir(at('new'))).toEqual(['thesis.txt']);
});
