import { readdirSync, rmSync } from 'node:fs';
import { cp, mkdtemp, readFile, readdir, rm, symlink, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { verifyBackups } from '../../../../../src/homes/directory/kernel/backup/read.js';
import { backup } from '../../../../../src/homes/directory/kernel/backup/backup.js';
import type { EngineName } from '../../../../../src/core/settings/store-config.js';
import { kernelFamilies } from '../../../../../src/homes/directory/kernel/families.js';
import type { Snapshot } from '../../../../../src/homes/directory/kernel/engine.js';
import { openKernel } from '../../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../../src/homes/directory/kernel/kernel.js';
import { restore } from '../../../../../src/homes/directory/kernel/backup/restore.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import { limitsWith } from '../../../../../src/core/settings/limits.js';

const families = ['test/values', 'test/counts'];
let directory: string;

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-backup-'));
});

afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

function open(dataDir: string, engine: EngineName, shards = 1): Promise<Kernel> {
  return openKernel({ dataDir, engine, shards, families, limits: limitsWith() });
}

const at = (name: string): string => join(directory, name);

/** Everything of a store but its logs and its notes about itself. */
function contents(store: Store): Map<string, string> {
  const found = new Map<string, string>();
  for (const family of families) {
    for (const { key, value } of store.range(family, {}))
      found.set(`${family} ${key.toString('hex')}`, value.toString('hex'));
  }
  return found;
}

function feedNumbers(kernel: Kernel): number[] {
  const numbers: number[] = [];
  for (let since: string | undefined; ;) {
    const page = kernel.feed.read({ since });
    numbers.push(...page.commits.map(({ seq }) => seq));
    if (!page.more) return numbers;
    since = page.position;
  }
}

/** One transaction that also counts itself, so that a torn one would show. */
async function write(store: Store, key: number, value: string): Promise<number> {
  return store.transact((tx) => {
    const count = Number(tx.get('test/counts', Buffer.from('n')) ?? 0) + 1;
    tx.put('test/counts', Buffer.from('n'), Buffer.from(String(count)));
    if (value === '') tx.delete('test/values', Buffer.from(String(key)));
    else tx.put('test/values', Buffer.from(String(key)), Buffer.from(value));
    tx.change({ domain: 'data', kind: 'document.set', id: String(key), user: 'u', version: count });
    return count;
  });
}

describe.each(['lmdb', 'rocksdb'] as const)('backups on %s', (engine) => {
  it('a full backup taken during writes has one consistent state', async () => {
    const kernel = await open(join(directory, 'data'), engine);
    for (let index = 0; index < 200; index += 1) await write(kernel.root, index, `value ${index}`);
    const stop = new AbortController();
    const load = (async () => {
      // With the 200 before, as many as one read of the feed returns at most.
      for (let round = 0; round < 100 && !stop.signal.aborted; round += 1)
        await Promise.all(Array.from({ length: 16 }, (_, index) => write(kernel.root, index, 'later')));
    })();
    const taken = await backup(kernel, { directory: join(directory, 'backups'), kind: 'full' });
    stop.abort();
    await load;
    await kernel.close();
    const report = await restore({
      directory: join(directory, 'backups'),
      target: join(directory, 'restored'),
      families,
    });
    const restored = await open(join(directory, 'restored'), engine);
    const count = Number(restored.root.get('test/counts', Buffer.from('n')));
    expect(report.seq[0]).toBe(taken.shards[0]?.seq);
    expect(count).toBe(restored.root.sequence);
    expect(feedNumbers(restored)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
    await restored.close();
  });

  it('a chain of increments restores to every point that was acknowledged', async () => {
    const kernel = await open(join(directory, 'data'), engine);
    const backups = join(directory, 'backups');
    const states = new Map<number, Map<string, string>>();
    const step = async (rounds: number, tag: string) => {
      for (let index = 0; index < rounds; index += 1) {
        await write(kernel.root, index % 7, index % 5 === 4 ? '' : `${tag} ${index}`);
        states.set(kernel.root.sequence, contents(kernel.root));
      }
    };
    await step(20, 'first');
    await backup(kernel, { directory: backups, kind: 'full' });
    await step(20, 'second');
    await backup(kernel, { directory: backups, kind: 'incremental' });
    await step(20, 'third');
    await backup(kernel, { directory: backups, kind: 'incremental' });
    await kernel.close();
    expect((await verifyBackups(backups)).map(({ ok }) => ok)).toEqual([true, true, true]);
    for (const seq of [20, 21, 37, 40, 41, 60]) {
      const target = join(directory, `restored-${seq}`);
      await restore({ directory: backups, target, to: { position: String(seq) }, families });
      const restored = await open(target, engine);
      expect(contents(restored.root)).toEqual(states.get(seq));
      expect(restored.root.sequence).toBe(seq);
      expect(feedNumbers(restored)).toEqual(Array.from({ length: seq }, (_, index) => index + 1));
      expect(await write(restored.root, 1, 'goes on')).toBeGreaterThan(0);
      expect(restored.root.sequence).toBe(seq + 1);
      await restored.close();
    }
  });

  it('restores several shards', async () => {
    const kernel = await open(join(directory, 'data'), engine, 4);
    for (const [shard, store] of kernel.stores.entries()) await write(store, shard, `shard ${shard}`);
    await backup(kernel, { directory: join(directory, 'backups'), kind: 'full' });
    for (const store of kernel.stores) await write(store, 9, 'later');
    await backup(kernel, { directory: join(directory, 'backups'), kind: 'incremental' });
    const expected = kernel.stores.map(contents);
    await kernel.close();
    await restore({ directory: join(directory, 'backups'), target: join(directory, 'restored'), families });
    const restored = await open(join(directory, 'restored'), engine, 4);
    expect(restored.stores.map(contents)).toEqual(expected);
    await restored.close();
  });
});

describe('backups that cannot be trusted', () => {
  let backups: string;

  beforeEach(async () => {
    backups = join(directory, 'backups');
    const kernel = await open(join(directory, 'data'), 'lmdb');
    await write(kernel.root, 1, 'one');
    await backup(kernel, { directory: backups, kind: 'full' });
    await write(kernel.root, 2, 'two');
    await backup(kernel, { directory: backups, kind: 'incremental' });
    await write(kernel.root, 3, 'three');
    await backup(kernel, { directory: backups, kind: 'incremental' });
    await kernel.close();
  });

  const attempt = () => restore({ directory: backups, target: join(directory, 'restored'), families });

  it('a changed byte is found, and nothing is left behind', async () => {
    const [full] = (await readdir(backups)).toSorted() as [string];
    const path = join(backups, full, 'shard-00.data');
    const bytes = await readFile(path);
    bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] as number) ^ 1;
    await writeFile(path, bytes);
    await expect(attempt()).rejects.toMatchObject({ code: 'damaged_backup' });
    expect((await readdir(directory)).filter((name) => name.startsWith('restored'))).toEqual([]);
  });

  it('a truncated file is found', async () => {
    const names = (await readdir(backups)).toSorted();
    await truncate(join(backups, names[1] as string, 'shard-00.redo'), 20);
    await expect(attempt()).rejects.toMatchObject({ code: 'damaged_backup' });
  });

  it('a missing increment is named', async () => {
    const names = (await readdir(backups)).toSorted();
    await rm(join(backups, names[1] as string), { recursive: true });
    await expect(attempt()).rejects.toThrow(`which is missing`);
  });

  it('a directory with data in it is never written over', async () => {
    await expect(
      restore({ directory: backups, target: join(directory, 'data'), families }),
    ).rejects.toMatchObject({ code: 'already_exists' });
  });

  it('an increment without a full backup of this store is refused', async () => {
    const kernel = await open(join(directory, 'other'), 'lmdb');
    await expect(backup(kernel, { directory: backups, kind: 'incremental' })).rejects.toMatchObject({
      code: 'conflict',
    });
    await kernel.close();
  });

  it('a directory that was set back does not build on a backup of its lost state', async () => {
    const chain = at('chain');
    const first = await open(at('one'), 'lmdb');
    await backup(first, { directory: at('elsewhere'), kind: 'full' });
    await first.close();
    await cp(at('one'), at('earlier'), { recursive: true });
    const original = await open(at('one'), 'lmdb');
    for (let key = 0; key < 30; key += 1) await write(original.root, key, 'of the first history');
    await backup(original, { directory: chain, kind: 'full' });
    await backup(original, { directory: chain, kind: 'incremental' });
    await original.close();

    const copy = await open(at('earlier'), 'lmdb');
    await expect(backup(copy, { directory: chain, kind: 'incremental' })).rejects.toThrow(
      'does not match this store',
    );
    await backup(copy, { directory: chain, kind: 'full' });
    for (let key = 0; key < 90; key += 1) await write(copy.root, key, 'of the second history');
    const { name, parent } = await backup(copy, { directory: chain, kind: 'incremental' });
    expect(parent).toMatch(/-full$/);
    const state = contents(copy.root);
    await copy.close();
    await restore({ directory: chain, target: at('restored'), families, name });
    const restored = await open(at('restored'), 'lmdb');
    expect(contents(restored.root)).toEqual(state);
    await restored.close();
  });

  it('a directory that was set back to before its first backup does not build on that backup', async () => {
    const chain = at('chain');
    await (await open(at('one'), 'lmdb')).close();
    await cp(at('one'), at('earlier'), { recursive: true });
    const original = await open(at('one'), 'lmdb');
    for (let key = 0; key < 30; key += 1) await write(original.root, key, 'of the first history');
    await backup(original, { directory: chain, kind: 'full' });
    await original.close();

    const copy = await open(at('earlier'), 'lmdb');
    // The redo log begins with a full backup, also if the backup fails.
    const signal = AbortSignal.abort();
    await expect(backup(copy, { directory: chain, kind: 'full', signal })).rejects.toThrow();
    for (let key = 0; key < 90; key += 1) await write(copy.root, key, 'of the second history');
    await expect(backup(copy, { directory: chain, kind: 'incremental' })).rejects.toThrow(
      'does not match this store',
    );
    await copy.close();
  });

  it('a restored directory starts a new chain', async () => {
    await restore({ directory: backups, target: join(directory, 'restored'), families });
    const kernel = await open(join(directory, 'restored'), 'lmdb');
    await expect(backup(kernel, { directory: backups, kind: 'incremental' })).rejects.toThrow(
      'belongs to a different store',
    );
    const own = join(directory, 'own');
    await expect(backup(kernel, { directory: own, kind: 'incremental' })).rejects.toThrow(
      'has no full backup of this store',
    );
    await backup(kernel, { directory: own, kind: 'full' });
    await write(kernel.root, 7, 'after the restore');
    const { name } = await backup(kernel, { directory: own, kind: 'incremental' });
    const state = contents(kernel.root);
    await kernel.close();
    expect(
      (await restore({ directory: own, target: join(directory, 'again'), families, name })).chain,
    ).toHaveLength(2);
    const again = await open(join(directory, 'again'), 'lmdb');
    expect(contents(again.root)).toEqual(state);
    await again.close();
  });

  it('a point past the end is refused, and the error names the end', async () => {
    await expect(
      restore({ directory: backups, target: join(directory, 'restored'), to: { position: '99' }, families }),
    ).rejects.toThrow(/position [0-9a-f]{12}-3\b/);
  });

  it('is written to a separate directory, not among the files of the engine', async () => {
    const kernel = await open(at('data'), 'lmdb');
    await symlink(at('data/shard-00'), at('innocent'));
    for (const place of ['data/shard-00', 'data/shard-00/db/deeper', 'innocent'])
      await expect(backup(kernel, { directory: at(place), kind: 'full' })).rejects.toMatchObject({
        code: 'invalid_request',
      });
    await expect(backup(kernel, { directory: at('data'), kind: 'full' })).rejects.toMatchObject({
      code: 'conflict',
    });
    const { name } = await backup(kernel, { directory: at('data/backups'), kind: 'full' });
    const state = contents(kernel.root);
    await kernel.close();
    await restore({ directory: at('data/backups'), target: at('restored'), families, name });
    for (const place of ['data', 'restored']) {
      const opened = await open(at(place), 'lmdb');
      expect(contents(opened.root)).toEqual(state);
      await opened.close();
    }
  });

  it('reports why it cannot be written', async () => {
    const kernel = await open(at('data'), 'lmdb');
    for (const place of [at('data/stoa.json'), at('data/stoa.json/backups'), '/proc/backups']) {
      await expect(backup(kernel, { directory: place, kind: 'full' })).rejects.toMatchObject({
        code: 'invalid_request',
        message: expect.stringContaining(place) as string,
        fix: expect.stringContaining('can write to') as string,
      });
    }
    await kernel.close();
  });

  it('releases its snapshot if no file can be created', async () => {
    let held = 0;
    const kernel = await openKernel({
      dataDir: at('data'),
      families,
      limits: limitsWith(),
      wrapEngine: (engine) => {
        const snapshot = (): Snapshot => {
          held += 1;
          for (const name of readdirSync(at('lost'))) rmSync(at(`lost/${name}`), { recursive: true });
          const taken = engine.snapshot();
          return { next: taken.next, close: () => taken.close().then(() => void (held -= 1)) };
        };
        return new Proxy(engine, {
          get: (target, name) => {
            if (name === 'snapshot') return snapshot;
            const member: unknown = Reflect.get(target, name, target);
            return typeof member === 'function' ? member.bind(target) : member;
          },
        });
      },
    });
    await expect(backup(kernel, { directory: at('lost'), kind: 'full' })).rejects.toMatchObject({
      code: 'engine',
      message: expect.stringContaining('ENOENT') as string,
    });
    expect(held).toBe(0);
    await kernel.close();
  });

  it('restores into another engine, but not into one that keeps nothing', async () => {
    await expect(
      restore({ directory: backups, target: join(directory, 'restored'), engine: 'memory', families }),
    ).rejects.toMatchObject({ code: 'invalid_request', fix: expect.any(String) as string });
    await restore({ directory: backups, target: join(directory, 'restored'), engine: 'rocksdb', families });
    const restored = await open(join(directory, 'restored'), 'rocksdb');
    expect(contents(restored.root).size).toBe(4);
    // It is another store, and writes a log when it makes its first backup.
    await write(restored.root, 1, 'after the restore');
    expect([...restored.root.range(kernelFamilies.redo, {})]).toEqual([]);
    await restored.close();
  });
});
