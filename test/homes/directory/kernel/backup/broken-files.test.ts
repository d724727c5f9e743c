import { execFile } from 'node:child_process';
import { cp, mkdir, readFile, rename, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, it } from 'vitest';
import { verifyBackups } from '../../../../../src/homes/directory/kernel/backup/read.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import { families, useChain } from './broken-chain.js';

const chain = useChain();
const { forge, payloadsOf, expectRefused } = chain;

describe('a chain is refused', () => {
  it('where a byte of the full backup changed', async () => {
    const path = join(chain.backups, chain.names[0], 'shard-00.data');
    const bytes = await readFile(path);
    bytes[20] = (bytes[20] as number) ^ 1;
    await writeFile(path, bytes);
    await expectRefused(/the checksum of the frame at byte 0 is wrong/, chain.names);
  });

  it('where an increment was cut', async () => {
    await truncate(join(chain.backups, chain.names[2], 'shard-00.redo'), 30);
    await expectRefused(/it ends at byte 30, before its last frame/, chain.names.slice(2));
  });

  it('where bytes were added behind the end', async () => {
    const path = join(chain.backups, chain.names[1], 'shard-00.redo');
    await writeFile(path, Buffer.concat([await readFile(path), Buffer.from('more')]));
    await expectRefused(/its size is not/, chain.names.slice(1));
  });

  it('where a file was replaced by an older one that is whole in itself', async () => {
    await cp(
      join(chain.backups, chain.names[1], 'shard-00.redo'),
      join(chain.backups, chain.names[2], 'shard-00.redo'),
    );
    await expectRefused(/SHA-256|another size|cannot be used/, chain.names.slice(2));
  });

  it('where a file is missing', async () => {
    await rm(join(chain.backups, chain.names[3], 'shard-00.redo'));
    await expectRefused(/ENOENT/, chain.names.slice(3));
  });

  it('where an increment leaves transactions out inside', async () => {
    const payloads = await payloadsOf(chain.names[2], 'shard-00.redo');
    expect(payloads.length).toBeGreaterThan(2);
    await forge(chain.names[2], 'shard-00.redo', payloads.toSpliced(1, 1));
    await expectRefused(/transaction \d+ comes after \d+/, chain.names.slice(2));
  });

  it('where an increment ends too early', async () => {
    await forge(
      chain.names[3],
      'shard-00.redo',
      (await payloadsOf(chain.names[3], 'shard-00.redo')).slice(0, -1),
    );
    await expectRefused(/it ends with transaction \d+ instead of \d+/, chain.names.slice(3));
  });

  it('where a frame of the log holds no log', async () => {
    await forge(chain.names[3], 'shard-00.redo', [Buffer.from([1, 2, 3])]);
    await expectRefused(/one of its frames cannot be read/, chain.names.slice(3));
  });

  it('where a frame of a full backup holds no entries', async () => {
    const [first, ...rest] = await payloadsOf(chain.names[0], 'shard-00.data');
    await forge(chain.names[0], 'shard-00.data', [(first as Buffer).subarray(0, -1), ...rest]);
    await expectRefused(/one of its frames cannot be read/, chain.names);
  });

  it('where a page of a full backup is missing', async () => {
    await forge(
      chain.names[0],
      'shard-00.data',
      (await payloadsOf(chain.names[0], 'shard-00.data')).slice(0, -1),
    );
    await expectRefused(/it has \d+ entries, but \d+ were written/, chain.names);
  });

  it('where the key ring was replaced, when it is asked for', async () => {
    await writeFile(join(chain.backups, chain.names[3], 'secret.keys'), 'another');
    const attempt = restore({
      directory: chain.backups,
      target: join(chain.directory, 'restored'),
      families,
      writeKey: () => Promise.resolve(),
    });
    await expect(attempt).rejects.toThrow('differs from backup.json');
    expect((await verifyBackups(chain.backups)).at(-1)?.ok).toBe(false);
  });

  it('where a file is in place of another: one is copied, or two are swapped', async () => {
    const [first, second] = [
      join(chain.backups, chain.names[1], 'shard-00.redo'),
      join(chain.backups, chain.names[2], 'shard-00.redo'),
    ];
    await rename(first, `${first}.aside`);
    await rename(second, first);
    await rename(`${first}.aside`, second);
    await expectRefused(/its size|SHA-256|comes after/, chain.names.slice(1));
  });

  it('where frames are in another order, or one comes twice', async () => {
    const payloads = await payloadsOf(chain.names[2], 'shard-00.redo');
    await forge(chain.names[2], 'shard-00.redo', payloads.toReversed());
    await expectRefused(/transaction \d+ comes after \d+/, chain.names.slice(2));
    await forge(chain.names[2], 'shard-00.redo', [payloads[0] as Buffer, ...payloads]);
    await expectRefused(/transaction \d+ comes after \d+/, chain.names.slice(2));
  });

  it('where a page of a full backup comes twice', async () => {
    const [first, ...rest] = await payloadsOf(chain.names[0], 'shard-00.data');
    await forge(chain.names[0], 'shard-00.data', [first as Buffer, first as Buffer, ...rest]);
    await expectRefused(/it has \d+ entries, but \d+ were written/, chain.names);
  });

  it('where any one bit of any file is another', async () => {
    for (const [index, file] of [
      [0, 'shard-00.data'],
      [2, 'shard-00.redo'],
      [3, 'secret.keys'],
    ] as const) {
      const path = join(chain.backups, chain.names[index], file);
      const bytes = await readFile(path);
      for (let flip = 0; flip < 24; flip += 1) {
        const at = Math.floor((flip / 24) * bytes.length);
        const damaged = Buffer.from(bytes);
        damaged[at] = (damaged[at] as number) ^ (1 << (flip % 8));
        await writeFile(path, damaged);
        const bad = (await verifyBackups(chain.backups)).filter(({ ok }) => !ok);
        expect(
          bad.map(({ name }) => name),
          `bit ${flip % 8} of byte ${at} of ${file}`,
        ).toEqual(chain.names.slice(index));
        expect(bad[0]?.reason).toBeTruthy();
      }
      await writeFile(path, bytes);
    }
  });

  it('where a frame claims more bytes than there are', async () => {
    const path = join(chain.backups, chain.names[0], 'shard-00.data');
    const bytes = await readFile(path);
    bytes.writeUInt32BE(1_000_000_000, 0);
    await writeFile(path, bytes);
    await expectRefused(/before its last frame/, chain.names);
  });

  it.each([
    ['a link', 'it is a symbolic link'],
    ['a pipe', 'it is not a regular file'],
    ['a directory', 'it is not a regular file'],
  ])('where a file is %s', async (what, reason) => {
    for (const [file, bad] of [
      ['shard-00.redo', chain.names.slice(3)],
      ['secret.keys', chain.names.slice(3)],
      ['backup.json', chain.names.slice(3)],
    ] as const) {
      const path = join(chain.backups, chain.names[3], file);
      await rename(path, `${path}.aside`);
      if (what === 'a link') await symlink(`${path}.aside`, path);
      else if (what === 'a pipe') await promisify(execFile)('mkfifo', [path]);
      else await mkdir(path);
      const verdicts = (await verifyBackups(chain.backups)).filter(({ ok }) => !ok);
      expect(verdicts.map(({ name }) => name)).toEqual(bad);
      expect(verdicts[0]?.reason).toContain(reason);
      await rm(path, { recursive: true });
      await rename(`${path}.aside`, path);
    }
  });
});
