import { mkdtemp, mkdir, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStoa } from '../../src/index.js';
import { backup } from '../../src/kernel/backup.js';
import { makePrivateDirectory, writeDurably } from '../../src/kernel/files.js';
import { acquireLock } from '../../src/kernel/lock.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-files-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const modeOf = async (path: string) => (await stat(path)).mode & 0o777;

test('a data directory that is made can be entered by its owner alone; one that was there keeps its permissions', async () => {
  const made = join(directory, 'parent', 'made');
  await (await openStoa({ data: made })).close();
  expect(await modeOf(made)).toBe(0o700);
  const given = join(directory, 'given');
  await mkdir(given, { mode: 0o750 });
  await (await openStoa({ data: given })).close();
  expect(await modeOf(given)).toBe(0o750);
});

test('a file in the place of a directory is refused', async () => {
  await writeFile(join(directory, 'file'), '');
  await expect(makePrivateDirectory(join(directory, 'file'))).rejects.toMatchObject({ code: 'EEXIST' });
  await expect(makePrivateDirectory(join(directory, 'file', 'below'))).rejects.toMatchObject({
    code: 'ENOTDIR',
  });
});

test.skipIf(process.platform !== 'linux')(
  'a file system that makes no directories is refused at once',
  async () => {
    await expect(makePrivateDirectory('/proc/none/below')).rejects.toMatchObject({ code: 'ENOENT' });
  },
);

test.skipIf(process.platform !== 'linux')(
  'a full disk is told as such, and leaves no part of a file',
  async () => {
    const full = join(directory, 'full');
    await mkdir(full);
    // What is written beside the file, before it gets the file's name, goes to a device that is always full.
    await symlink('/dev/full', join(full, `stoa.json.${process.pid}.tmp`));
    await expect(writeDurably(join(full, 'stoa.json'), '{}')).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringContaining(full),
      fix: expect.any(String),
    });
    expect(await readdir(full)).toEqual([]);
  },
);

test.skipIf(process.platform !== 'linux')(
  'a directory that nobody may write to is refused with what to do',
  async () => {
    await expect(acquireLock('/sys', {})).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringContaining('/sys cannot be written'),
      fix: expect.any(String),
    });
  },
);

test('a backup to where nothing can be written is a refusal that says so', async () => {
  const stoa = await openStoa({ data: join(directory, 'source') });
  const target = join(directory, 'file', 'backups');
  await expect(backup(stoa.kernel, { directory: target, kind: 'full' })).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining(target),
    fix: expect.any(String),
  });
  await stoa.close();
});
