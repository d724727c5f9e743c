import { mkdtemp, mkdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStoa } from '../../src/index.js';
import { backup } from '../../src/kernel/backup.js';
import { makePrivateDirectory } from '../../src/kernel/files.js';

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
  await expect(makePrivateDirectory(join(directory, 'file', 'below'))).rejects.toMatchObject({ code: 'ENOTDIR' });
});

test.skipIf(process.platform !== 'linux')('a file system that makes no directories is refused at once', async () => {
  await expect(makePrivateDirectory('/proc/none/below')).rejects.toMatchObject({ code: 'ENOENT' });
});

test('a backup to where nothing can be written is a refusal that says so', async () => {
  const stoa = await openStoa({ data: join(directory, 'source') });
  const target = join(directory, 'file', 'backups');
  await expect(backup(stoa.kernel, { directory: target, kind: 'full' })).rejects.toMatchObject({ code: 'invalid_request', message: expect.stringContaining(target), fix: expect.any(String) });
  await stoa.close();
});
