import { mkdir, readdir, rename, rm, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import {
  chainTo,
  chainsOf,
  listBackups,
  summariesIn,
} from '../../../../../src/homes/directory/kernel/backup/chain.js';
import type { BackupDescription } from '../../../../../src/homes/directory/kernel/backup/description.js';
import { verifyBackups } from '../../../../../src/homes/directory/kernel/backup/read.js';
import { pruneChains } from '../../../../../src/homes/directory/kernel/backup/schedule.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';
import { families, useChain } from './broken-chain.js';

const chain = useChain();
const { change, expectRefused } = chain;

describe('a chain is refused with its reason', () => {
  it('not if nothing is wrong', async () => {
    expect((await verifyBackups(chain.backups)).every(({ ok }) => ok)).toBe(true);
    expect(
      (await restore({ directory: chain.backups, target: join(chain.directory, 'restored'), families }))
        .chain,
    ).toEqual(chain.names);
  });

  it('where an increment is missing', async () => {
    await rm(join(chain.backups, chain.names[1]), { recursive: true });
    await expectRefused(
      new RegExp(`${chain.names[2]} builds on ${chain.names[1]}, which is missing`),
      chain.names.slice(2),
    );
  });

  it('where the full backup is missing', async () => {
    await rm(join(chain.backups, chain.names[0]), { recursive: true });
    await expectRefused(new RegExp(`builds on ${chain.names[0]}, which is missing`), chain.names.slice(1));
  });

  it('where an increment builds on nothing', async () => {
    await change(chain.names[1], (description) => (description.parent = null));
    await expectRefused(/an increment without a full backup before it/, chain.names.slice(1));
  });

  it('where two build on each other', async () => {
    await change(chain.names[1], (description) => (description.parent = chain.names[2]));
    await expectRefused(/builds on itself/, chain.names.slice(1));
  });

  it('where an increment comes from another store', async () => {
    await change(chain.names[2], (description) => (description.store = 'another'));
    await expectRefused(/are backups of different stores/, chain.names.slice(2));
  });

  it('where the number of shards differs', async () => {
    await change(chain.names[3], ({ shards }) => {
      const first = shards[0] as BackupDescription['shards'][0];
      shards.push({ ...first, file: { ...first.file, name: 'shard-01.redo' } });
    });
    const attempt = restore({
      directory: chain.backups,
      target: join(chain.directory, 'restored'),
      families,
      name: chain.names[3],
    });
    await expect(attempt).rejects.toThrow(/has \d+ shards, but/);
  });

  it('where an increment leaves transactions out between two', async () => {
    await change(
      chain.names[2],
      ({ shards }) => ((shards[0] as BackupDescription['shards'][0]).fromLsn += 1),
    );
    await expectRefused(/begins after transaction \d+ of shard 0, but .* ends with/, chain.names.slice(2));
  });

  it('where a description is not JSON', async () => {
    await writeFile(join(chain.backups, chain.names[1], 'backup.json'), '{');
    await expectRefused(/is not JSON/, chain.names.slice(1));
  });

  it('where a description is missing, but not where nothing else is there either', async () => {
    await rm(join(chain.backups, chain.names[3], 'backup.json'));
    await expectRefused(/backup\.json is missing/, chain.names.slice(3));
    await rm(join(chain.backups, chain.names[3]), { recursive: true });
    await mkdir(join(chain.backups, chain.names[3]));
    expect((await verifyBackups(chain.backups)).every(({ ok }) => ok)).toBe(true);
  });

  it('where a backup was given another name', async () => {
    await rename(join(chain.backups, chain.names[1]), join(chain.backups, 'renamed'));
    await expectRefused(/does not describe the backup renamed: name is different/, [
      'renamed',
      ...chain.names.slice(2),
    ]);
  });

  it('where a newer program wrote it', async () => {
    await change(chain.names[3], (description) => (description.format = 99));
    expect((await verifyBackups(chain.backups)).filter(({ ok }) => !ok)).toMatchObject([
      { name: chain.names[3], kind: null, reason: expect.stringContaining('has format 99') as string },
    ]);
    await expect(
      restore({ directory: chain.backups, target: join(chain.directory, 'restored'), families }),
    ).rejects.toMatchObject({ code: 'newer_data' });
  });

  it('where two increments have swapped their places with all that belongs to them', async () => {
    await rename(join(chain.backups, chain.names[1]), join(chain.backups, 'aside'));
    await rename(join(chain.backups, chain.names[2]), join(chain.backups, chain.names[1]));
    await rename(join(chain.backups, 'aside'), join(chain.backups, chain.names[2]));
    await expectRefused(/: name is different/, [chain.names[1], chain.names[2], chain.names[3]]);
  });

  it.each(['../../data/stoa.json', '/etc/passwd', 'shard-01.redo', ''])(
    'where the file is said to be "%s"',
    async (name) => {
      await change(
        chain.names[3],
        ({ shards }) => ((shards[0] as BackupDescription['shards'][0]).file.name = name),
      );
      await expectRefused(/a file name is not shard-00\.redo/, chain.names.slice(3));
    },
  );

  it.each(['../../../etc/passwd', 'operator.token'])(
    'where the key ring is said to be "%s"',
    async (name) => {
      await change(chain.names[3], (description) => ((description.key as { name: string }).name = name));
      await expectRefused(/a file name is not secret\.keys/, chain.names.slice(3));
    },
  );

  it('where it builds on a name that leads out of the directory', async () => {
    await change(chain.names[1], (description) => (description.parent = `../backups/${chain.names[0]}`));
    await expectRefused(/builds on \.\.\/backups\/.*, which is missing/, chain.names.slice(1));
  });

  it('where a full backup builds on another', async () => {
    await change(chain.names[0], (description) => (description.parent = chain.names[3]));
    await expectRefused(/builds on itself/, chain.names);
    await change(chain.names[2], (description) => (description.kind = 'full'));
    expect((await verifyBackups(chain.backups)).filter(({ ok }) => ok)).toEqual([]);
  });

  it.each([
    ['{}', 'format is missing'],
    ['[]', 'it must be an object, got a list'],
    ['null', 'it must be an object, got null'],
    ['"backup"', 'it must be an object, got text'],
  ])('where a description is only %s', async (text, reason) => {
    await writeFile(join(chain.backups, chain.names[3], 'backup.json'), text);
    await expectRefused(new RegExp(reason), chain.names.slice(3));
  });

  it.each([
    ['lsn', -1, 'must be 0 or more, got -1'],
    ['lsn', 1e300, 'must be 9,'],
    ['seq', null, 'must be a number, got null'],
    ['atMs', '0', 'must be a number, got text'],
    ['entries', 0.5, 'must be a whole number'],
    ['fromLsn', undefined, 'is missing'],
  ])('where %s is %s', async (field, value, complaint) => {
    await change(chain.names[3], ({ shards }) => Object.assign(shards[0] as object, { [field]: value }));
    await expectRefused(new RegExp(`shards.0.${field} ${complaint}`), chain.names.slice(3));
  });

  it('where it names another last change than it contains', async () => {
    await change(chain.names[0], ({ shards }) => Object.assign(shards[0] as object, { seq: 4 }));
    const attempt = restore({
      directory: chain.backups,
      target: join(chain.directory, 'restored'),
      families,
      name: chain.names[0],
    });
    await expect(attempt).rejects.toMatchObject({
      code: 'damaged_backup',
      message: expect.stringContaining('ends with change 3') as string,
    });
    expect((await readdir(chain.directory)).filter((name) => name.startsWith('restored'))).toEqual([]);
  });

  it('and an unreadable backup does not block others', async () => {
    await writeFile(join(chain.backups, chain.names[3], 'backup.json'), '{');
    expect(await summariesIn(chain.backups)).toMatchObject({
      items: [{ name: chain.names[0] }, { name: chain.names[1] }, { name: chain.names[2] }],
      unreadable: [{ name: chain.names[3], reason: expect.stringContaining('is not JSON') as string }],
    });
    expect(
      (
        await restore({
          directory: chain.backups,
          target: join(chain.directory, 'by-name'),
          families,
          name: chain.names[2],
        })
      ).chain,
    ).toEqual(chain.names.slice(0, 3));
    expect(
      (
        await restore({
          directory: chain.backups,
          target: join(chain.directory, 'by-point'),
          families,
          to: { position: '4' },
        })
      ).seq,
    ).toEqual([4]);
    expect(() => chainTo([], chain.names[0])).toThrow('there is no backup named');
  });

  it('but not if the damage is after the requested point', async () => {
    await truncate(join(chain.backups, chain.names[3], 'shard-00.redo'), 30);
    expect(
      (
        await restore({
          directory: chain.backups,
          target: join(chain.directory, 'restored'),
          families,
          to: { position: '9' },
        })
      ).seq,
    ).toEqual([9]);
  });
});

describe('pruning', () => {
  it('deletes whole chains and keeps the one with the newest backup', async () => {
    const kernel = await openKernel({
      dataDir: join(chain.directory, 'data'),
      families,
      limits: limitsWith(),
    });
    const own = join(chain.directory, 'own');
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
