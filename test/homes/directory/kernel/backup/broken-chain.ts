/** A full backup with three increments, to be damaged. */
import { createHash } from 'node:crypto';
import { cp, mkdtemp, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { crc32 } from 'node:zlib';
import { afterAll, afterEach, beforeAll, beforeEach, expect } from 'vitest';
import { listBackups } from '../../../../../src/homes/directory/kernel/backup/chain.js';
import type { BackupDescription } from '../../../../../src/homes/directory/kernel/backup/description.js';
import { verifyBackups } from '../../../../../src/homes/directory/kernel/backup/read.js';
import type { BackupVerdict } from '../../../../../src/operations/model.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

export const families = ['test/values'];

/** The chain is made once; every test damages a separate copy. */
export function useChain() {
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

  return {
    get directory() {
      return directory;
    },
    get backups() {
      return backups;
    },
    /** The names of the four backups, in order. */
    get names() {
      return names;
    },
    change,
    forge,
    payloadsOf,
    expectRefused,
  };
}
