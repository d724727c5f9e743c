import { execFile } from 'node:child_process';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, describe, expect, it } from 'vitest';
import type { EngineName } from '../../../../src/core/settings/store-config.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { decodeFeed, decodeRedo } from '../../../../src/homes/directory/kernel/feed/log.js';
import type { Store } from '../../../../src/homes/directory/kernel/store.js';
import { StoaError } from '../../../../src/core/errors.js';
import {
  bytes,
  change,
  items,
  openStore,
  removeDirectories,
  temporaryDirectory,
  text,
  turns,
  until,
} from './open-store.js';

afterAll(removeDirectories);

const engines: EngineName[] = ['memory', 'lmdb', 'rocksdb'];

/** Writes a key and announces it. */
function announce(store: Store, key: string, value = 'v'): Promise<number> {
  return store.transact((tx) => {
    tx.put(items, bytes(key), bytes(value));
    tx.change(change(key));
    return tx.nowMs;
  });
}

function numbersIn(store: Store): { seqs: number[]; lsns: number[] } {
  return {
    seqs: [...store.range(kernelFamilies.changes, {})].flatMap(({ value }) =>
      decodeFeed(value).items.map(({ seq }) => seq),
    ),
    lsns: [...store.range(kernelFamilies.redo, {})].flatMap(({ value }) =>
      decodeRedo(value).items.map(({ lsn }) => lsn),
    ),
  };
}

function oneTo(last: number): number[] {
  return Array.from({ length: last }, (_, index) => index + 1);
}

describe.each(engines)('a commit that fails because of a full disk on %s', (engine) => {
  it('fails every transaction in it and all on top of it; nothing of them is seen, and no number is lost', async () => {
    const opened = await openStore({ engine });
    const { store } = opened;
    await announce(store, 'before');
    const release = opened.engine.holdCommits();
    opened.engine.failNext('disk_full');
    const doomed = [announce(store, 'a'), announce(store, 'b')];
    await until(() => opened.engine.commits === 2);
    doomed.push(announce(store, 'c'));
    doomed.push(store.transact((tx) => (text(tx, 'a') === 'v' ? 1 : 0)));
    doomed.push(
      store.transact((tx) => {
        throw new RangeError(`saw ${text(tx, 'b')}`);
      }),
    );
    const flushed = store.flush();
    release();
    for (const outcome of await Promise.allSettled(doomed)) {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'disk_full' } });
    }
    await flushed;
    expect(Array.from(store.range(items, {}), ({ key }) => key.toString())).toEqual(['before']);
    expect(await store.transact((tx) => [...tx.range(items, {})].length)).toBe(1);

    await Promise.all([announce(store, 'd'), announce(store, 'e')]);
    expect(numbersIn(store)).toEqual({ seqs: oneTo(3), lsns: oneTo(3) });
    await store.close();
  });

  it('is refused while the disk is full and succeeds when there is space', async () => {
    const opened = await openStore({ engine });
    const heard: number[] = [];
    opened.store.onCommit((commits) => heard.push(...commits.map(({ seq }) => seq)));
    opened.engine.failNext('disk_full', 'disk_full', 'disk_full');
    for (let attempt = 0; attempt < 3; attempt += 1)
      await expect(announce(opened.store, 'a')).rejects.toMatchObject({ code: 'disk_full' });
    expect(opened.store.stopped).toBeUndefined();
    await announce(opened.store, 'a');
    expect(text(opened.store, 'a')).toBe('v');
    expect(heard).toEqual([1]);
    await opened.store.close();
  });
});

describe.each(engines)('a commit with an unknown outcome on %s', (engine) => {
  it.each(['before', 'after'] as const)(
    'stops writes for good (it failed %s it was applied), and reads go on',
    async (fault) => {
      const opened = await openStore({ engine });
      const { store } = opened;
      await announce(store, 'before');
      opened.engine.failNext(fault);
      const outcomes = await Promise.allSettled([announce(store, 'a'), announce(store, 'b')]);
      for (const outcome of outcomes) {
        expect(outcome).toMatchObject({
          status: 'rejected',
          reason: { code: 'writes_stopped', fix: expect.stringContaining('Reads still work') },
        });
      }
      await expect(announce(store, 'c')).rejects.toMatchObject({ code: 'writes_stopped' });
      expect(store.stopped).toBeInstanceOf(StoaError);
      expect(store.sequence).toBe(1);
      expect(text(store, 'before')).toBe('v');
      await store.flush();
      await store.close();
      if (engine === 'memory') return;

      const reopened = await openStore({ engine, directory: opened.directory });
      const kept = Array.from(reopened.store.range(items, {}), ({ key }) => key.toString());
      expect(kept).toEqual(fault === 'before' ? ['before'] : ['a', 'b', 'before']);
      await announce(reopened.store, 'd');
      expect(numbersIn(reopened.store)).toEqual({
        seqs: oneTo(kept.length + 1),
        lsns: oneTo(kept.length + 1),
      });
      await reopened.store.close();
    },
  );
});

describe('a store that is stopped from outside', () => {
  it('commits nothing more, not even waiting transactions, and reports the reason', async () => {
    const { store, engine } = await openStore();
    const waiting = announce(store, 'a');
    const reason = new StoaError('writes_stopped', 'Another process has the directory.');
    store.stop(reason);
    await expect(waiting).rejects.toBe(reason);
    await expect(announce(store, 'b')).rejects.toBe(reason);
    expect([engine.commits, text(store, 'a')]).toEqual([0, undefined]);
  });
});

describe('a log record that cannot be decoded', () => {
  it.each([
    ['feed', kernelFamilies.changes, bytes('[1,0,[{')],
    ['redo log', kernelFamilies.redo, Buffer.from([1, 0, 0, 0])],
  ])('in the %s is reported as such', async (log, family, value) => {
    const { store, engine, directory } = await openStore({ engine: 'lmdb' });
    await announce(store, 'a');
    await engine.commit([{ family, key: Buffer.alloc(8, 9), value }]);
    await store.close();
    await expect(openStore({ engine: 'lmdb', directory })).rejects.toMatchObject({
      code: 'serialization',
      message: expect.stringContaining(log),
    });
  });
});

describe('a slow disk', () => {
  it('acknowledges and shows nothing early, and does not block readers', async () => {
    const { store, engine } = await openStore({ engine: 'lmdb' });
    await announce(store, 'before');
    const release = engine.holdCommits();
    let acknowledged = 0;
    const writing = oneTo(64).map((number) => announce(store, `k${number}`).then(() => (acknowledged += 1)));
    for (let look = 0; look < 20; look += 1) {
      await turns(5);
      expect(text(store, 'before')).toBe('v');
      expect([...store.range(items, {})]).toHaveLength(1);
    }
    expect(acknowledged).toBe(0);
    release();
    await Promise.all(writing);
    expect([...store.range(items, {})]).toHaveLength(65);
    await store.close();
  });

  it('gathers what arrives meanwhile into the next group', async () => {
    const { store, engine } = await openStore();
    engine.delayCommits(5);
    await Promise.all(
      oneTo(64).map(async (writer) => {
        for (let round = 0; round < 5; round += 1) await announce(store, `${writer}.${round}`);
      }),
    );
    expect(engine.commits).toBeLessThanOrEqual(10);
  });
});

const isRoot = process.getuid?.() === 0;

/** A disk of a few megabytes; mounting one needs root. */
async function smallDisk(
  sizeMegabytes: number,
): Promise<{ directory: string; remove: () => Promise<void> } | undefined> {
  if (!isRoot) return undefined;
  const directory = await temporaryDirectory();
  try {
    await promisify(execFile)('mount', ['-t', 'tmpfs', '-o', `size=${sizeMegabytes}m`, 'tmpfs', directory]);
  } catch {
    // A container without the right to mount.
    return undefined;
  }
  return {
    directory,
    remove: async () => {
      await promisify(execFile)('umount', [directory]);
    },
  };
}

/** RocksDB must be opened again after its log could not be written; LMDB recovers without that. */
const fullDisks = [
  { engine: 'lmdb', goesOnAlone: true },
  { engine: 'rocksdb', goesOnAlone: false },
] as const;

describe.each(fullDisks)('a disk that is really full under $engine', ({ engine, goesOnAlone }) => {
  it('refuses writes that do not fit, keeps acknowledged ones, and continues when there is space', async (context) => {
    const disk = await smallDisk(64);
    await context.annotate(
      disk === undefined
        ? 'no right to mount: nothing was proven on a really full disk'
        : 'a tmpfs of 64 MiB',
    );
    if (disk === undefined) return;
    const ballast = join(disk.directory, 'ballast');
    const directory = join(disk.directory, 'data');
    await writeFile(ballast, Buffer.alloc(40 * 1024 * 1024));
    let { store } = await openStore({ engine, directory });
    try {
      const acknowledged = await fill(store);
      expect(acknowledged.length).toBeGreaterThan(5);
      expect(keysIn(store)).toEqual(acknowledged);

      await rm(ballast);
      if (!goesOnAlone) {
        await store.close();
        ({ store } = await openStore({ engine, directory }));
      }
      await announce(store, 'later');
      await store.close();
      ({ store } = await openStore({ engine, directory }));
      expect(keysIn(store)).toEqual([...acknowledged, 'later']);
      expect(numbersIn(store).seqs).toEqual(oneTo(acknowledged.length + 1));
    } finally {
      await store.close();
      await disk.remove();
    }
  });
});

/** Writes until the disk is full; answers what was acknowledged before. */
async function fill(store: Store): Promise<string[]> {
  const acknowledged: string[] = [];
  for (;;) {
    const key = `k${String(acknowledged.length).padStart(4, '0')}`;
    try {
      await announce(store, key, 'x'.repeat(100_000));
    } catch (error) {
      expect(error).toMatchObject({ code: 'disk_full' });
      return acknowledged;
    }
    acknowledged.push(key);
  }
}

function keysIn(store: Store): string[] {
  return Array.from(store.range(items, {}), ({ key }) => key.toString());
}
