import { cp, mkdtemp, readdir, rm, truncate } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { StoaError } from '../../../../../src/core/errors.js';
import { chainTo, listBackups } from '../../../../../src/homes/directory/kernel/backup/chain.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { BackupScheduler, pruneChains } from '../../../../../src/homes/directory/kernel/backup/schedule.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

let directory: string;
let kernel: Kernel;
let nowMs: number;
const faults: unknown[] = [];

beforeEach(async () => {
  faults.length = 0;
  nowMs = Date.parse('2026-01-01T00:00:00Z');
  directory = await mkdtemp(join(tmpdir(), 'stoa-schedule-'));
  kernel = await openKernel({
    dataDir: join(directory, 'data'),
    families: ['test/values'],
    limits: limitsWith(),
    clock: () => nowMs,
  });
});

afterEach(async () => {
  await kernel.close();
  await rm(directory, { recursive: true, force: true });
});

const hourMs = 3_600_000;

it('makes a full backup first, increments in between, and keeps only whole chains', async () => {
  const backups = join(directory, 'backups');
  const scheduler = new BackupScheduler(
    kernel,
    { directory: backups, fullEveryMs: 24 * hourMs, incrementalEveryMs: hourMs, chainsKept: 2 },
    { onBackup: () => undefined, onError: (error) => faults.push(error) },
  );
  for (let hour = 0; hour < 24 * 3 + 2; hour += 1) {
    await kernel.root.transact((tx) => tx.put('test/values', Buffer.from(`k${hour}`), Buffer.from('v')));
    await scheduler.tick();
    // A second look at the same hour has nothing to do.
    await scheduler.tick();
    nowMs += hourMs;
  }
  expect(faults).toEqual([]);
  const list = await listBackups(backups);
  expect(list.filter(({ kind }) => kind === 'full')).toHaveLength(2);
  expect(list[0]?.kind).toBe('full');
  expect(list).toHaveLength(24 + 2);
  for (const { name } of list) expect(chainTo(list, name)[0]?.kind).toBe('full');
});

it('continues after the clock is set back', async () => {
  const backups = join(directory, 'backups');
  const scheduler = new BackupScheduler(
    kernel,
    { directory: backups, fullEveryMs: 24 * hourMs, incrementalEveryMs: hourMs, chainsKept: 9 },
    { onBackup: () => undefined, onError: (error) => faults.push(error) },
  );
  await scheduler.tick();
  nowMs -= 365 * 24 * hourMs;
  for (let hour = 0; hour < 3; hour += 1) {
    await scheduler.tick();
    await scheduler.tick();
    nowMs += hourMs;
  }
  expect(faults).toEqual([]);
  expect((await listBackups(backups)).map(({ kind }) => kind)).toEqual([
    'full',
    'full',
    'incremental',
    'incremental',
  ]);
});

it('makes a full backup if the log no longer reaches back to the last one', async () => {
  await kernel.close();
  kernel = await openKernel({
    dataDir: join(directory, 'data'),
    families: ['test/values'],
    limits: limitsWith({ redoBytesMax: 1 }),
    clock: () => nowMs,
  });
  const backups = join(directory, 'backups');
  const scheduler = new BackupScheduler(
    kernel,
    { directory: backups, fullEveryMs: 24 * hourMs, incrementalEveryMs: hourMs, chainsKept: 9 },
    { onBackup: () => undefined, onError: (error) => faults.push(error) },
  );
  await scheduler.tick();
  for (let key = 0; key < 5; key += 1)
    await kernel.root.transact((tx) => tx.put('test/values', Buffer.from(`k${key}`), Buffer.from('v')));
  await kernel.trim();
  await expect(backup(kernel, { directory: backups, kind: 'incremental' })).rejects.toThrow(
    'the redo log does not have the next one',
  );
  nowMs += hourMs;
  await scheduler.tick();
  expect(faults).toEqual([]);
  expect((await listBackups(backups)).map(({ kind }) => kind)).toEqual(['full', 'full']);
});

const kindsIn = async (backups: string): Promise<string[]> =>
  (await listBackups(backups)).map(({ kind }) => kind);

function schedulerFor(backups: string, chainsKept: number, incrementalEveryMs = 0): BackupScheduler {
  const schedule = { directory: backups, fullEveryMs: 24 * hourMs, incrementalEveryMs, chainsKept };
  return new BackupScheduler(kernel, schedule, {
    onBackup: () => undefined,
    onError: (error) => faults.push(error),
  });
}

it('keeps the backups that are newest by time or by content after the clock was set back', async () => {
  const backups = join(directory, 'backups');
  const scheduler = schedulerFor(backups, 1);
  await scheduler.tick();
  const [before] = await listBackups(backups);
  nowMs -= 365 * 24 * hourMs;
  for (let day = 0; day < 3; day += 1) {
    await scheduler.tick();
    nowMs += 24 * hourMs;
  }
  const left = await listBackups(backups);
  expect(left).toHaveLength(2);
  expect(left[0]).toEqual(before);
  nowMs += 365 * 24 * hourMs;
  await scheduler.tick();
  expect(await listBackups(backups)).toHaveLength(1);
  expect(faults).toEqual([]);
});

it('backs up a directory that was set back, and does not treat the old history as newer', async () => {
  const backups = join(directory, 'backups');
  await backup(kernel, { directory: join(directory, 'elsewhere'), kind: 'full' });
  await kernel.close();
  await cp(join(directory, 'data'), join(directory, 'earlier'), { recursive: true });
  const open = (dataDir: string) =>
    openKernel({ dataDir, families: ['test/values'], limits: limitsWith(), clock: () => nowMs });
  kernel = await open(join(directory, 'data'));
  for (let key = 0; key < 9; key += 1)
    await kernel.root.transact((tx) => tx.put('test/values', Buffer.from('k'), Buffer.from('v')));
  await schedulerFor(backups, 1).tick();
  const [old] = await listBackups(backups);
  await kernel.close();

  kernel = await open(join(directory, 'earlier'));
  nowMs += hourMs;
  const scheduler = schedulerFor(backups, 1);
  await scheduler.tick();
  await scheduler.tick();
  const names = (await listBackups(backups)).map(({ name }) => name);
  expect(names).toHaveLength(2);
  expect(names).toContain(old?.name);
  expect(faults).toEqual([]);
});

it('backs up a store that refuses writes once, not at each look at the clock', async () => {
  const backups = join(directory, 'backups');
  kernel.root.stop(new StoaError('writes_stopped', 'The test stops the writes.'));
  const scheduler = schedulerFor(backups, 1);
  await scheduler.tick();
  nowMs += 60_000;
  await scheduler.tick();
  expect(await listBackups(backups)).toHaveLength(1);
  expect(faults).toEqual([]);
});

it('deletes no old chain while the remaining ones are damaged', async () => {
  const backups = join(directory, 'backups');
  await schedulerFor(backups, 9).tick();
  nowMs += 24 * hourMs;
  await schedulerFor(backups, 9).tick();
  const [whole, damaged] = (await listBackups(backups)).map(({ name }) => name) as [string, string];
  await truncate(join(backups, damaged, 'shard-00.data'), 10);
  await expect(pruneChains(backups, kernel.manifest.id, 1)).rejects.toMatchObject({
    code: 'damaged_backup',
    message: expect.stringContaining('Old backups were not removed') as string,
  });
  expect(await readdir(backups)).toContain(whole);
  await backup(kernel, { directory: backups, kind: 'full' });
  expect(await pruneChains(backups, kernel.manifest.id, 1)).toEqual([whole, damaged]);
});

it('stops a backup when the store closes, without files or an error', async () => {
  const backups = join(directory, 'backups');
  for (const kind of ['full', 'incremental'] as const) {
    for (let key = 0; key < 9; key += 1)
      await kernel.root.transact((tx) => tx.put('test/values', Buffer.from(`k${key}`), Buffer.from(kind)));
    const scheduler = schedulerFor(backups, 9, hourMs);
    const ticking = scheduler.tick();
    await scheduler.stop();
    await ticking;
    expect(await readdir(backups)).toEqual(kind === 'full' ? [] : [expect.stringMatching(/-full$/)]);
    await schedulerFor(backups, 9, hourMs).tick();
    nowMs += hourMs;
  }
  expect(await kindsIn(backups)).toEqual(['full', 'incremental']);
  expect(faults).toEqual([]);
});

it('reports a failed backup and continues', async () => {
  const reported: string[] = [];
  const scheduler = new BackupScheduler(
    kernel,
    {
      directory: join(directory, 'data', 'stoa.json', 'impossible'),
      fullEveryMs: hourMs,
      incrementalEveryMs: 0,
      chainsKept: 1,
    },
    { onBackup: () => undefined, onError: (_, about) => reported.push(about) },
  );
  await scheduler.tick();
  expect(reported[0]).toContain('scheduled backup');
});
