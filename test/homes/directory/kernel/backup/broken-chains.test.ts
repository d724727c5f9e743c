import { createHash } from 'node:crypto';
import { execFile } from 'node:child_process';
import {
  cp,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rename,
  rm,
  symlink,
  truncate,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import {
  chainTo,
  chainsOf,
  listBackups,
  summariesIn,
} from '../../../../../src/homes/directory/kernel/backup/chain.js';
import type { BackupDescription } from '../../../../../src/homes/directory/kernel/backup/description.js';
import { verifyBackups } from '../../../../../src/homes/directory/kernel/backup/read.js';
import type { BackupVerdict } from '../../../../../src/operations/model.js';
import { pruneChains } from '../../../../../src/homes/directory/kernel/backup/schedule.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

const families = ['test/values'];
/** A full backup and three increments, made once; every test damages a separate copy. */
let original: string;
let directory: string;
let backups: string;
/** The names of the four, in order. */
let names: [full: string, first: string, second: string, third: string];

beforeAll(async () => {
  original = await mkdtemp(join(tmpdir(), 'stoa-chain-'));
  const kernel = await openKernel({ dataDir: join(original, 'data'), families, limits: limitsWith() });
  for (let index = 0; index < 4; index += 1) {
    for (let key = 0; key < 3; key += 1) {
      await kernel.root.transact((tx) => {
        tx.put('test/values', Buffer.from(`${index}-${key}`), Buffer.from('value'));
        tx.change({ domain: 'data', kind: 'document.set', id: `${index}-${key}`, user: 'u', version: 1 });
      });
    }
    await backup(kernel, {
      directory: join(original, 'backups'),
      kind: index === 0 ? 'full' : 'incremental',
      readKey: () => Promise.resolve(Buffer.from('the ring')),
    });
  }
  await kernel.close();
});

afterAll(async () => {
  await rm(original, { recursive: true, force: true });
});

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-broken-'));
  backups = join(directory, 'backups');
  await cp(join(original, 'backups'), backups, { recursive: true });
  names = (await listBackups(backups)).map(({ name }) => name) as typeof names;
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

async function change(name: string, edit: (description: BackupDescription) => void): Promise<void> {
  const path = join(backups, name, 'backup.json');
  const description = JSON.parse(await readFile(path, 'utf8')) as BackupDescription;
  edit(description);
  await writeFile(path, JSON.stringify(description));
}

/** Replaces a file of a backup by frames with right checksums, noted as if they had been written so. */
async function forge(name: string, file: string, payloads: readonly Buffer[]): Promise<void> {
  const bytes = Buffer.concat(
    [...payloads, Buffer.alloc(0)].map((payload) => {
      const header = Buffer.alloc(8);
      header.writeUInt32BE(payload.length, 0);
      header.writeUInt32BE(crc32(payload), 4);
      return Buffer.concat([header, payload]);
    }),
  );
  await writeFile(join(backups, name, file), bytes);
  await change(name, ({ shards }) => {
    const part = shards[0] as BackupDescription['shards'][0];
    part.file = {
      ...part.file,
      sizeBytes: bytes.length,
      sha256: createHash('sha256').update(bytes).digest('hex'),
    };
  });
}

async function payloadsOf(name: string, file: string): Promise<Buffer[]> {
  const bytes = await readFile(join(backups, name, file));
  const payloads: Buffer[] = [];
  for (let at = 0; bytes.readUInt32BE(at) > 0; at += 8 + bytes.readUInt32BE(at))
    payloads.push(bytes.subarray(at + 8, at + 8 + bytes.readUInt32BE(at)));
  return payloads;
}

/** Verify and restore refuse it with the reason, and the restore leaves nothing behind. */
async function expectRefused(reason: RegExp, bad: readonly string[]): Promise<void> {
  const verdicts: BackupVerdict[] = await verifyBackups(backups);
  expect(verdicts.filter(({ ok }) => !ok).map(({ name }) => name)).toEqual(bad);
  expect(verdicts.find(({ name }) => name === bad[0])?.reason).toMatch(reason);
  const attempt = restore({ directory: backups, target: join(directory, 'restored'), families });
  await expect(attempt).rejects.toMatchObject({ code: 'damaged_backup' });
  await expect(attempt).rejects.toThrow(reason);
  expect((await readdir(directory)).filter((name) => name.startsWith('restored'))).toEqual([]);
}

describe('a chain is refused with its reason', () => {
  it('not if nothing is wrong', async () => {
    expect((await verifyBackups(backups)).every(({ ok }) => ok)).toBe(true);
    expect(
      (await restore({ directory: backups, target: join(directory, 'restored'), families })).chain,
    ).toEqual(names);
  });

  it('where a byte of the full backup changed', async () => {
    const path = join(backups, names[0], 'shard-00.data');
    const bytes = await readFile(path);
    bytes[20] = (bytes[20] as number) ^ 1;
    await writeFile(path, bytes);
    await expectRefused(/the checksum of the frame at byte 0 is wrong/, names);
  });

  it('where an increment was cut', async () => {
    await truncate(join(backups, names[2], 'shard-00.redo'), 30);
    await expectRefused(/it ends at byte 30, before its last frame/, names.slice(2));
  });

  it('where bytes were added behind the end', async () => {
    const path = join(backups, names[1], 'shard-00.redo');
    await writeFile(path, Buffer.concat([await readFile(path), Buffer.from('more')]));
    await expectRefused(/its size is not/, names.slice(1));
  });

  it('where a file was replaced by an older one that is whole in itself', async () => {
    await cp(join(backups, names[1], 'shard-00.redo'), join(backups, names[2], 'shard-00.redo'));
    await expectRefused(/SHA-256|another size|cannot be used/, names.slice(2));
  });

  it('where a file is missing', async () => {
    await rm(join(backups, names[3], 'shard-00.redo'));
    await expectRefused(/ENOENT/, names.slice(3));
  });

  it('where an increment is missing', async () => {
    await rm(join(backups, names[1]), { recursive: true });
    await expectRefused(new RegExp(`${names[2]} builds on ${names[1]}, which is missing`), names.slice(2));
  });

  it('where the full backup is missing', async () => {
    await rm(join(backups, names[0]), { recursive: true });
    await expectRefused(new RegExp(`builds on ${names[0]}, which is missing`), names.slice(1));
  });

  it('where an increment builds on nothing', async () => {
    await change(names[1], (description) => (description.parent = null));
    await expectRefused(/an increment without a full backup before it/, names.slice(1));
  });

  it('where two build on each other', async () => {
    await change(names[1], (description) => (description.parent = names[2]));
    await expectRefused(/builds on itself/, names.slice(1));
  });

  it('where an increment comes from another store', async () => {
    await change(names[2], (description) => (description.store = 'another'));
    await expectRefused(/are backups of different stores/, names.slice(2));
  });

  it('where the number of shards differs', async () => {
    await change(names[3], ({ shards }) => {
      const first = shards[0] as BackupDescription['shards'][0];
      shards.push({ ...first, file: { ...first.file, name: 'shard-01.redo' } });
    });
    const attempt = restore({
      directory: backups,
      target: join(directory, 'restored'),
      families,
      name: names[3],
    });
    await expect(attempt).rejects.toThrow(/has \d+ shards, but/);
  });

  it('where an increment leaves transactions out between two', async () => {
    await change(names[2], ({ shards }) => ((shards[0] as BackupDescription['shards'][0]).fromLsn += 1));
    await expectRefused(/begins after transaction \d+ of shard 0, but .* ends with/, names.slice(2));
  });

  it('where an increment leaves transactions out inside', async () => {
    const payloads = await payloadsOf(names[2], 'shard-00.redo');
    expect(payloads.length).toBeGreaterThan(2);
    await forge(names[2], 'shard-00.redo', payloads.toSpliced(1, 1));
    await expectRefused(/transaction \d+ comes after \d+/, names.slice(2));
  });

  it('where an increment ends too early', async () => {
    await forge(names[3], 'shard-00.redo', (await payloadsOf(names[3], 'shard-00.redo')).slice(0, -1));
    await expectRefused(/it ends with transaction \d+ instead of \d+/, names.slice(3));
  });

  it('where a frame of the log holds no log', async () => {
    await forge(names[3], 'shard-00.redo', [Buffer.from([1, 2, 3])]);
    await expectRefused(/one of its frames cannot be read/, names.slice(3));
  });

  it('where a frame of a full backup holds no entries', async () => {
    const [first, ...rest] = await payloadsOf(names[0], 'shard-00.data');
    await forge(names[0], 'shard-00.data', [(first as Buffer).subarray(0, -1), ...rest]);
    await expectRefused(/one of its frames cannot be read/, names);
  });

  it('where a page of a full backup is missing', async () => {
    await forge(names[0], 'shard-00.data', (await payloadsOf(names[0], 'shard-00.data')).slice(0, -1));
    await expectRefused(/it has \d+ entries, but \d+ were written/, names);
  });

  it('where a description is not JSON', async () => {
    await writeFile(join(backups, names[1], 'backup.json'), '{');
    await expectRefused(/is not JSON/, names.slice(1));
  });

  it('where a description is missing, but not where nothing else is there either', async () => {
    await rm(join(backups, names[3], 'backup.json'));
    await expectRefused(/backup\.json is missing/, names.slice(3));
    await rm(join(backups, names[3]), { recursive: true });
    await mkdir(join(backups, names[3]));
    expect((await verifyBackups(backups)).every(({ ok }) => ok)).toBe(true);
  });

  it('where a backup was given another name', async () => {
    await rename(join(backups, names[1]), join(backups, 'renamed'));
    await expectRefused(/does not describe the backup renamed: "name" is different/, [
      'renamed',
      ...names.slice(2),
    ]);
  });

  it('where a newer program wrote it', async () => {
    await change(names[3], (description) => (description.format = 99));
    expect((await verifyBackups(backups)).filter(({ ok }) => !ok)).toMatchObject([
      { name: names[3], kind: null, reason: expect.stringContaining('has format 99') as string },
    ]);
    await expect(
      restore({ directory: backups, target: join(directory, 'restored'), families }),
    ).rejects.toMatchObject({ code: 'newer_data' });
  });

  it('where the key ring was replaced, when it is asked for', async () => {
    await writeFile(join(backups, names[3], 'secret.keys'), 'another');
    const attempt = restore({
      directory: backups,
      target: join(directory, 'restored'),
      families,
      writeKey: () => Promise.resolve(),
    });
    await expect(attempt).rejects.toThrow('differs from backup.json');
    expect((await verifyBackups(backups)).at(-1)?.ok).toBe(false);
  });

  it('where a file is in place of another: one is copied, or two are swapped', async () => {
    const [first, second] = [
      join(backups, names[1], 'shard-00.redo'),
      join(backups, names[2], 'shard-00.redo'),
    ];
    await rename(first, `${first}.aside`);
    await rename(second, first);
    await rename(`${first}.aside`, second);
    await expectRefused(/its size|SHA-256|comes after/, names.slice(1));
  });

  it('where two increments have swapped their places with all that belongs to them', async () => {
    await rename(join(backups, names[1]), join(backups, 'aside'));
    await rename(join(backups, names[2]), join(backups, names[1]));
    await rename(join(backups, 'aside'), join(backups, names[2]));
    await expectRefused(/"name" is different/, [names[1], names[2], names[3]]);
  });

  it('where frames are in another order, or one comes twice', async () => {
    const payloads = await payloadsOf(names[2], 'shard-00.redo');
    await forge(names[2], 'shard-00.redo', payloads.toReversed());
    await expectRefused(/transaction \d+ comes after \d+/, names.slice(2));
    await forge(names[2], 'shard-00.redo', [payloads[0] as Buffer, ...payloads]);
    await expectRefused(/transaction \d+ comes after \d+/, names.slice(2));
  });

  it('where a page of a full backup comes twice', async () => {
    const [first, ...rest] = await payloadsOf(names[0], 'shard-00.data');
    await forge(names[0], 'shard-00.data', [first as Buffer, first as Buffer, ...rest]);
    await expectRefused(/it has \d+ entries, but \d+ were written/, names);
  });

  it('where any one bit of any file is another', async () => {
    for (const [index, file] of [
      [0, 'shard-00.data'],
      [2, 'shard-00.redo'],
      [3, 'secret.keys'],
    ] as const) {
      const path = join(backups, names[index], file);
      const bytes = await readFile(path);
      for (let flip = 0; flip < 24; flip += 1) {
        const at = Math.floor((flip / 24) * bytes.length);
        const damaged = Buffer.from(bytes);
        damaged[at] = (damaged[at] as number) ^ (1 << (flip % 8));
        await writeFile(path, damaged);
        const bad = (await verifyBackups(backups)).filter(({ ok }) => !ok);
        expect(
          bad.map(({ name }) => name),
          `bit ${flip % 8} of byte ${at} of ${file}`,
        ).toEqual(names.slice(index));
        expect(bad[0]?.reason).toBeTruthy();
      }
      await writeFile(path, bytes);
    }
  });

  it('where a frame claims more bytes than there are', async () => {
    const path = join(backups, names[0], 'shard-00.data');
    const bytes = await readFile(path);
    bytes.writeUInt32BE(1_000_000_000, 0);
    await writeFile(path, bytes);
    await expectRefused(/before its last frame/, names);
  });

  it.each([
    ['a link', 'it is a symbolic link'],
    ['a pipe', 'it is not a regular file'],
    ['a directory', 'it is not a regular file'],
  ])('where a file is %s', async (what, reason) => {
    for (const [file, bad] of [
      ['shard-00.redo', names.slice(3)],
      ['secret.keys', names.slice(3)],
      ['backup.json', names.slice(3)],
    ] as const) {
      const path = join(backups, names[3], file);
      await rename(path, `${path}.aside`);
      if (what === 'a link') await symlink(`${path}.aside`, path);
      else if (what === 'a pipe') await promisify(execFile)('mkfifo', [path]);
      else await mkdir(path);
      const verdicts = (await verifyBackups(backups)).filter(({ ok }) => !ok);
      expect(verdicts.map(({ name }) => name)).toEqual(bad);
      expect(verdicts[0]?.reason).toContain(reason);
      await rm(path, { recursive: true });
      await rename(`${path}.aside`, path);
    }
  });

  it.each(['../../data/stoa.json', '/etc/passwd', 'shard-01.redo', ''])(
    'where the file is said to be "%s"',
    async (name) => {
      await change(
        names[3],
        ({ shards }) => ((shards[0] as BackupDescription['shards'][0]).file.name = name),
      );
      await expectRefused(/in shard 0, the file name is not shard-00\.redo/, names.slice(3));
    },
  );

  it.each(['../../../etc/passwd', 'operator.token'])(
    'where the key ring is said to be "%s"',
    async (name) => {
      await change(names[3], (description) => ((description.key as { name: string }).name = name));
      await expectRefused(/the file name is not secret\.keys/, names.slice(3));
    },
  );

  it('where it builds on a name that leads out of the directory', async () => {
    await change(names[1], (description) => (description.parent = `../backups/${names[0]}`));
    await expectRefused(/builds on \.\.\/backups\/.*, which is missing/, names.slice(1));
  });

  it('where a full backup builds on another', async () => {
    await change(names[0], (description) => (description.parent = names[3]));
    await expectRefused(/builds on itself/, names);
    await change(names[2], (description) => (description.kind = 'full'));
    expect((await verifyBackups(backups)).filter(({ ok }) => ok)).toEqual([]);
  });

  it.each([
    ['{}', '"format" is not a positive number'],
    ['[]', 'it is not a JSON object'],
    ['null', 'it is not a JSON object'],
    ['"backup"', 'it is not a JSON object'],
  ])('where a description is only %s', async (text, reason) => {
    await writeFile(join(backups, names[3], 'backup.json'), text);
    await expectRefused(new RegExp(reason), names.slice(3));
  });

  it.each([
    ['lsn', -1],
    ['lsn', 1e300],
    ['seq', null],
    ['atMs', '0'],
    ['entries', 0.5],
    ['fromLsn', undefined],
  ])('where %s is %s', async (field, value) => {
    await change(names[3], ({ shards }) => Object.assign(shards[0] as object, { [field]: value }));
    await expectRefused(new RegExp(`"${field}" is not a number`), names.slice(3));
  });

  it('where it names another last change than it contains', async () => {
    await change(names[0], ({ shards }) => Object.assign(shards[0] as object, { seq: 4 }));
    const attempt = restore({
      directory: backups,
      target: join(directory, 'restored'),
      families,
      name: names[0],
    });
    await expect(attempt).rejects.toMatchObject({
      code: 'damaged_backup',
      message: expect.stringContaining('ends with change 3') as string,
    });
    expect((await readdir(directory)).filter((name) => name.startsWith('restored'))).toEqual([]);
  });

  it('and an unreadable backup does not block others', async () => {
    await writeFile(join(backups, names[3], 'backup.json'), '{');
    expect(await summariesIn(backups)).toMatchObject({
      items: [{ name: names[0] }, { name: names[1] }, { name: names[2] }],
      unreadable: [{ name: names[3], reason: expect.stringContaining('is not JSON') as string }],
    });
    expect(
      (await restore({ directory: backups, target: join(directory, 'by-name'), families, name: names[2] }))
        .chain,
    ).toEqual(names.slice(0, 3));
    expect(
      (
        await restore({
          directory: backups,
          target: join(directory, 'by-point'),
          families,
          to: { position: '4' },
        })
      ).seq,
    ).toEqual([4]);
    expect(() => chainTo([], names[0])).toThrow('there is no backup named');
  });

  it('but not if the damage is after the requested point', async () => {
    await truncate(join(backups, names[3], 'shard-00.redo'), 30);
    expect(
      (
        await restore({
          directory: backups,
          target: join(directory, 'restored'),
          families,
          to: { position: '9' },
        })
      ).seq,
    ).toEqual([9]);
  });
});

describe('pruning', () => {
  it('deletes whole chains and keeps the one with the newest backup', async () => {
    const kernel = await openKernel({ dataDir: join(directory, 'data'), families, limits: limitsWith() });
    const own = join(directory, 'own');
    const kinds = ['full', 'incremental', 'full', 'incremental', 'full'] as const;
    for (const kind of kinds) {
      await kernel.root.transact((tx) => tx.put('test/values', Buffer.from('k'), Buffer.from(kind)));
      await backup(kernel, { directory: own, kind });
    }
    const before = await listBackups(own);
    expect(chainsOf(before).map((chain) => chain.length)).toEqual([2, 2, 1]);
    expect(await pruneChains(own, kernel.manifest.id, 1)).toEqual(
      [1, 0, 3, 2].map((index) => before[index]?.name),
    );
    expect((await listBackups(own)).map(({ name }) => name)).toEqual([before[4]?.name]);
    expect(await pruneChains(own, 'another store', 1)).toEqual([]);
    await kernel.close();
  });
});
