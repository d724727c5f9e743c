import { kernelOf } from '../../kernel-of.js';
import { randomUUID } from 'node:crypto';
import { chmod, mkdtemp, mkdir, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { openStoa } from '../../../src/index.js';
import { backup } from '../../../src/homes/directory/kernel/backup/backup.js';
import { makePrivateDirectory, writeDurably } from '../../../src/core/files.js';
import { acquireLock } from '../../../src/homes/directory/kernel/directory/lock.js';
import { mountSmallDisk } from './kernel/small-disk.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-files-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const modeOf = async (path: string) => (await stat(path)).mode & 0o777;

test('a new data directory is accessible to its owner only; an existing one keeps its permissions', async () => {
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

test('a full disk is reported as such, and leaves the old file and no part of the new one', async () => {
  const disk = mountSmallDisk(1);
  try {
    const path = join(disk.path, 'stoa.json');
    await writeDurably(path, 'old');
    disk.fill();
    await expect(writeDurably(path, '{}')).rejects.toMatchObject({
      code: 'disk_full',
      message: expect.stringContaining(disk.path),
      fix: expect.any(String),
    });
    disk.free();
    expect([await readFile(path, 'utf8'), await readdir(disk.path)]).toEqual(['old', ['stoa.json']]);
  } finally {
    disk.unmount();
  }
});

test('many concurrent writers of one file leave a complete file and no draft', async () => {
  const path = join(directory, 'shared', 'file');
  await mkdir(join(directory, 'shared'));
  const contents = Array.from({ length: 20 }, (_, index) => String(index).repeat(50_000));
  await Promise.all(contents.map((content) => writeDurably(path, content)));
  expect(contents).toContain(await readFile(path, 'utf8'));
  expect(await readdir(join(directory, 'shared'))).toEqual(['file']);
});

test('a draft of a killed process is deleted at the next start', async () => {
  const data = join(directory, 'drafts');
  await (await openStoa({ data })).close();
  await writeFile(join(data, `secret.keys.${randomUUID()}.draft`), 'a part');
  await writeFile(join(data, 'notes.draft'), 'of somebody else');
  await (await openStoa({ data })).close();
  expect((await readdir(data)).filter((name) => name.endsWith('.draft'))).toEqual(['notes.draft']);
});

test.each(['lmdb', 'rocksdb'] as const)(
  'every file is for its owner alone in a directory that others can enter: %s',
  async (engine) => {
    const umask = process.umask(0o022);
    try {
      const data = join(directory, `open-${engine}`);
      await mkdir(data, { mode: 0o755 });
      await chmod(data, 0o755);
      const stoa = await openStoa({ data, engine });
      await backup(kernelOf(stoa), { directory: join(data, 'backups'), kind: 'full' });
      const whileOpen = await modesOf(data);
      await stoa.close();
      const known = [...whileOpen, ...(await modesOf(data))];
      expect(known.length).toBeGreaterThan(10);
      // RocksDB can create files at any time; their directory is not accessible to others.
      expect(known.filter(({ path, mode }) => (mode & 0o077) !== 0 && path !== data)).toEqual([]);
    } finally {
      process.umask(umask);
    }
  },
);

async function modesOf(path: string): Promise<{ path: string; mode: number }[]> {
  const entries = await readdir(path, { recursive: true });
  return Promise.all(
    entries.map(async (name) => ({ path: join(path, name), mode: await modeOf(join(path, name)) })),
  );
}

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

test('a backup to a place that cannot be written is refused with a clear error', async () => {
  const stoa = await openStoa({ data: join(directory, 'source') });
  const target = join(directory, 'file', 'backups');
  await expect(backup(kernelOf(stoa), { directory: target, kind: 'full' })).rejects.toMatchObject({
    code: 'invalid_request',
    message: expect.stringContaining(target),
    fix: expect.any(String),
  });
  await stoa.close();
});
