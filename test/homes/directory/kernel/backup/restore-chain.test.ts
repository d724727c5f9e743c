/** Which backups a restore uses without --name: it never chooses between two at random. */
import { cp, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { BackupDescription } from '../../../../../src/homes/directory/kernel/backup/description.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { type RestoreOptions, restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
import type { RestoreReport } from '../../../../../src/operations/model.js';

const families = ['test/values'];
let directory: string;
let nowMs: number;

beforeEach(async () => {
  nowMs = Date.parse('2026-01-01T00:00:00Z');
  directory = await mkdtemp(join(tmpdir(), 'stoa-choice-'));
});

afterEach(() => rm(directory, { recursive: true, force: true }));

const target = (): string => join(directory, 'restored');
const from = (given: Partial<RestoreOptions> = {}): Promise<RestoreReport> =>
  restore({ directory: join(directory, 'own'), target: target(), families, ...given });
const full = (kernel: Kernel, place = 'own'): Promise<BackupDescription> =>
  backup(kernel, { directory: join(directory, place), kind: 'full' });
const increment = (kernel: Kernel, place = 'own'): Promise<BackupDescription> =>
  backup(kernel, { directory: join(directory, place), kind: 'incremental' });

async function inStore<T>(
  name: string,
  body: (kernel: Kernel, write: () => Promise<void>) => Promise<T>,
): Promise<T> {
  const kernel = await openKernel({
    dataDir: join(directory, name),
    families,
    limits: limitsWith(),
    clock: () => nowMs,
  });
  const write = () =>
    kernel.root.transact((tx) => {
      tx.put('test/values', Buffer.from('k'), Buffer.from(name));
      tx.change({ domain: 'data', kind: 'document.set', id: 'k', user: 'u', version: 1 });
    });
  try {
    return await body(kernel, write);
  } finally {
    await kernel.close();
  }
}

it('does not choose between two stores', async () => {
  const first = await inStore('first', (kernel) => full(kernel));
  const second = await inStore('second', (kernel) => full(kernel, 'others'));
  // By hand: no backup is written beside one of another store.
  await cp(join(directory, 'others', second.name), join(directory, 'own', second.name), { recursive: true });
  for (const to of [undefined, { position: '0' }]) {
    await expect(from({ to })).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringMatching(new RegExp(`2 stores: .*${first.name}.*${second.name}`)) as string,
      fix: expect.stringContaining('--name') as string,
    });
  }
  expect((await from({ name: first.name })).chain).toEqual([first.name]);
});

it('does not choose between two histories of one store', async () => {
  await inStore('one', (kernel) => full(kernel, 'elsewhere'));
  await cp(join(directory, 'one'), join(directory, 'earlier'), { recursive: true });
  const old = await inStore('one', async (kernel, write) => {
    for (let round = 0; round < 9; round += 1) await write();
    return full(kernel);
  });
  nowMs += 1_000;
  const current = await inStore('earlier', (kernel) => full(kernel));
  await expect(from()).rejects.toThrow(new RegExp(`is ambiguous.*: .*${current.name}.*${old.name}`));
  expect((await from({ name: current.name })).chain).toEqual([current.name]);
});

it('uses the end of the chain if only the clock was set back', async () => {
  await inStore('one', async (kernel, write) => {
    await full(kernel);
    await write();
    nowMs -= 60_000;
    await increment(kernel);
  });
  expect(await from()).toMatchObject({ seq: [1], transactions: expect.any(Number) as number });
});

it('uses another chain if one is broken', async () => {
  const [broken, whole] = await inStore('one', async (kernel, write) => {
    await full(kernel);
    await full(kernel, 'second');
    await write();
    const middle = await increment(kernel);
    await write();
    await increment(kernel);
    return [middle.name, (await increment(kernel, 'second')).name];
  });
  await cp(join(directory, 'second'), join(directory, 'own'), { recursive: true });
  await rm(join(directory, 'own', broken), { recursive: true });
  expect((await from({ to: { position: '1' } })).chain.at(-1)).toBe(whole);
  await rm(target(), { recursive: true });
  await rm(join(directory, 'own', whole), { recursive: true });
  await expect(from({ to: { position: '1' } })).rejects.toThrow(`builds on ${broken}, which is missing`);
});

it('refuses a point before the first backup, by position and by time', async () => {
  const { name } = await inStore('one', async (kernel, write) => {
    await write();
    return full(kernel);
  });
  for (const [to, point] of [
    [{ position: '0' }, 'the position 0'],
    [{ timeMs: nowMs - 1 }, new Date(nowMs - 1).toISOString()],
    [{ timeMs: -1 }, '1969-12-31T23:59:59.999Z'],
  ] as const)
    await expect(from({ to })).rejects.toMatchObject({
      code: 'conflict',
      message: `The full backup ${name} is newer than ${point}.`,
    });
  await expect(from({ to: { position: '1.1' } })).rejects.toMatchObject({ code: 'invalid_request' });
  await expect(from({ to: { position: 'fedcba987654-1' } })).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('belongs to a different store') as string,
  });
  expect((await readdir(directory)).filter((found) => found.startsWith('restored'))).toEqual([]);
});

it('refuses a target that is a file', async () => {
  await inStore('one', (kernel) => full(kernel));
  await writeFile(target(), 'a letter');
  await expect(from()).rejects.toMatchObject({ code: 'already_exists' });
  expect(await readFile(target(), 'utf8')).toBe('a letter');
});
