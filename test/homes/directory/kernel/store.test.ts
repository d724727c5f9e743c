import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, describe, expect, it } from 'vitest';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { decodeFeed, decodeRedo } from '../../../../src/homes/directory/kernel/feed/log.js';
import type { GroupFacts } from '../../../../src/homes/directory/kernel/store-options.js';
import type { Transaction } from '../../../../src/homes/directory/kernel/transaction.js';
import {
  bytes,
  change,
  items,
  openStore,
  others,
  put,
  removeDirectories,
  text,
  turns,
  until,
} from './open-store.js';

afterAll(removeDirectories);

function increment(tx: Transaction, key = 'count'): number {
  const next = Number(text(tx, key) ?? 0) + 1;
  tx.put(items, bytes(key), bytes(String(next)));
  return next;
}

function collectGarbage(): void {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
}

describe('the order of transactions', () => {
  it('is the order of the calls, also when none is awaited', async () => {
    const { store } = await openStore();
    const answers = await Promise.all(
      Array.from({ length: 500 }, () => store.transact((tx) => increment(tx))),
    );
    expect(answers).toEqual(Array.from({ length: 500 }, (_, index) => index + 1));
    expect(text(store, 'count')).toBe('500');
  });

  it('runs the body at once', async () => {
    const { store } = await openStore();
    let ran = false;
    const done = store.transact(() => {
      ran = true;
    });
    expect(ran).toBe(true);
    await done;
  });
});

describe('groups', () => {
  it('make 64 transactions durable with one commit', async () => {
    const groups: GroupFacts[] = [];
    const { store, engine } = await openStore({ onGroup: (group) => groups.push(group) });
    await Promise.all(Array.from({ length: 64 }, (_, index) => put(store, `k${index}`)));
    expect(engine.commits).toBe(1);
    expect(groups).toEqual([
      { transactions: 64, operations: 66, sizeBytes: expect.any(Number), commitMs: expect.any(Number) },
    ]);
  });

  it('share commits when 64 writers continue as soon as they have their answer', async () => {
    const { store, engine } = await openStore();
    await Promise.all(
      Array.from({ length: 64 }, async () => {
        for (let round = 0; round < 20; round += 1) await store.transact((tx) => increment(tx));
      }),
    );
    expect(text(store, 'count')).toBe(String(64 * 20));
    expect(engine.commits).toBeLessThanOrEqual(2 * 20);
  });

  it('hold a whole transaction: its data, its change and its redo record are in one commit', async () => {
    const { store, engine } = await openStore();
    const first = store.transact((tx) => {
      tx.put(items, bytes('a'), bytes('1'));
      tx.delete(others, bytes('b'));
      tx.change(change('a', { facts: { from: null, to: 'ä' } }));
    });
    const silent = put(store, 'c');
    await Promise.all([first, silent]);
    expect(engine.committed).toHaveLength(1);
    const written = new Map(
      engine.committed[0]?.map((operation) => [
        operation.family + operation.key.toString('hex'),
        operation.value,
      ]),
    );
    const feed = decodeFeed(written.get(`${kernelFamilies.changes}0000000000000001`) as Buffer);
    expect(feed.items).toEqual([
      { seq: 1, atMs: expect.any(Number), changes: [change('a', { facts: { from: null, to: 'ä' } })] },
    ]);
    const redo = decodeRedo(written.get(`${kernelFamilies.redo}0000000000000002`) as Buffer);
    expect(redo.items).toEqual([
      {
        lsn: 1,
        atMs: expect.any(Number),
        commit: feed.items[0],
        operations: [
          { family: items, key: bytes('a'), value: bytes('1') },
          { family: others, key: bytes('b'), value: undefined },
        ],
      },
      {
        lsn: 2,
        atMs: expect.any(Number),
        commit: null,
        operations: [{ family: items, key: bytes('c'), value: bytes('v') }],
      },
    ]);
  });

  it('write a key once, also if it changed often', async () => {
    const { store, engine } = await openStore();
    await Promise.all(Array.from({ length: 10 }, () => store.transact((tx) => increment(tx))));
    expect(engine.committed[0]?.filter(({ family }) => family === items)).toMatchObject([
      { family: items, key: bytes('count'), value: bytes('10') },
    ]);
  });

  it('are freed once they are on disk, also under a constant load', async () => {
    const { store, engine } = await openStore();
    let release = engine.holdCommits();
    const values: WeakRef<Buffer>[] = [];
    const answers: Promise<void>[] = [];
    for (let round = 1; round <= 5; round += 1) {
      // Each runs while the one before is being committed, and reads from it.
      answers.push(
        store.transact((tx) => {
          const value = Buffer.alloc(1_000, round);
          values.push(new WeakRef(value));
          tx.put(items, bytes(`k${round}`), value);
        }),
      );
      if (round > 1) release();
      if (round > 1) release = engine.holdCommits();
      await until(() => engine.commits === round);
    }
    engine.committed.length = 0;
    await turns(2);
    collectGarbage();
    expect(values.map((value) => value.deref()?.[0])).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
      5,
    ]);
    release();
    await Promise.all(answers);
  });
});

/** A store whose commits wait, with a list of what has been answered. */
async function heldBack() {
  const opened = await openStore();
  const release = opened.engine.holdCommits();
  const settled: string[] = [];
  const note = (name: string, promise: Promise<unknown>) =>
    promise.then(
      () => settled.push(`${name} resolved`),
      () => settled.push(`${name} rejected`),
    );
  return { ...opened, release, settled, note };
}

describe('waiting for the disk', () => {
  it('a plain read sees nothing before it is durable', async () => {
    const { store, engine, release } = await heldBack();
    const writing = put(store, 'a');
    await until(() => engine.commits === 1);
    expect([
      text(store, 'a'),
      [...store.range(items, {})].length,
      store.getMany(items, [bytes('a')]),
    ]).toEqual([undefined, 0, [undefined]]);
    expect([store.sequence, store.lsn]).toEqual([0, 0]);
    release();
    await writing;
    expect(text(store, 'a')).toBe('v');
  });

  it('a transaction that only read, or threw, waits for the writes that it may have seen', async () => {
    const { store, engine, release, settled, note } = await heldBack();
    const waiting = [note('write', put(store, 'a'))];
    await until(() => engine.commits === 1);
    waiting.push(
      note(
        'read',
        store.transact((tx) => text(tx, 'a')),
      ),
    );
    waiting.push(
      note(
        'throw',
        store.transact((tx) => expect(text(tx, 'a')).toBeUndefined()),
      ),
    );
    waiting.push(note('flush', store.flush()));
    await turns(50);
    expect(settled).toEqual([]);
    release();
    await Promise.all(waiting);
    expect(settled).toEqual(['write resolved', 'read resolved', 'throw rejected', 'flush resolved']);
  });

  it('a transaction that only reads takes no commit, and is answered when nothing is pending', async () => {
    const { store, engine } = await openStore();
    await put(store, 'a');
    expect(await store.transact((tx) => text(tx, 'a'))).toBe('v');
    expect(engine.commits).toBe(1);
  });

  it('flush ends although others continue to write', async () => {
    const { store } = await openStore();
    const stop = new AbortController();
    const writer = (async () => {
      while (!stop.signal.aborted) await Promise.race([put(store, 'a'), put(store, 'b')]);
    })();
    for (let round = 0; round < 20; round += 1) await store.flush();
    stop.abort();
    await writer;
  });

  it('past the limits new transactions are refused, and accepted again later', async () => {
    const { store, engine } = await openStore({
      limits: { transactionsWaitingMax: 5, transactionBytesWaitingMax: 1000 },
    });
    const release = engine.holdCommits();
    const writing = [put(store, 'first')];
    await until(() => engine.commits === 1);
    for (let index = 0; index < 5; index += 1) writing.push(put(store, `k${index}`));
    await expect(put(store, 'sixth')).rejects.toMatchObject({ code: 'overloaded', fix: expect.any(String) });
    release();
    await Promise.all(writing);
    await put(store, 'sixth');
    const releaseAgain = engine.holdCommits();
    const large = [put(store, 'first')];
    await until(() => engine.commits === 4);
    large.push(put(store, 'large', 'x'.repeat(1000)));
    await expect(put(store, 'next')).rejects.toMatchObject({ code: 'overloaded' });
    releaseAgain();
    await Promise.all(large);
  });

  it('the writes of a failed body do not count against the limits', async () => {
    const { store, engine } = await openStore({ limits: { transactionBytesWaitingMax: 1000 } });
    const release = engine.holdCommits();
    const writing = [put(store, 'first')];
    await until(() => engine.commits === 1);
    const failing = store.transact((tx) => {
      tx.put(items, bytes('large'), Buffer.alloc(1000));
      throw new Error('undone');
    });
    writing.push(put(store, 'next'));
    release();
    await expect(failing).rejects.toThrow('undone');
    await Promise.all(writing);
  });

  it('close makes all accepted transactions durable, then refuses new ones', async () => {
    const { store, settled, note, release } = await heldBack();
    const waiting = [note('a', put(store, 'a')), note('b', put(store, 'b')), note('close', store.close())];
    await expect(put(store, 'c')).rejects.toMatchObject({ code: 'closed' });
    release();
    await Promise.all(waiting);
    expect(settled).toEqual(['a resolved', 'b resolved', 'close resolved']);
  });
});

describe('listeners', () => {
  it('get each commit in order, when it is durable and before its caller continues', async () => {
    const { store } = await openStore();
    const heard: string[] = [];
    const stop = store.onCommit((commits) =>
      heard.push(...commits.map(({ seq }) => `${seq} durable ${store.sequence >= seq}`)),
    );
    await store.transact((tx) => tx.change(change('a'))).then(() => heard.push('answered'));
    await put(store, 'silent');
    await Promise.all(['b', 'c'].map((id) => store.transact((tx) => tx.change(change(id)))));
    stop();
    await store.transact((tx) => tx.change(change('d')));
    expect(heard).toEqual(['1 durable true', 'answered', '2 durable true', '3 durable true']);
  });
});

describe.each(['lmdb', 'rocksdb'] as const)('numbers on %s', (engine) => {
  it('have no gap after reopening, and a transaction that announces nothing gets none', async () => {
    const first = await openStore({ engine });
    for (let round = 0; round < 3; round += 1) {
      await Promise.all([
        first.store.transact((tx) => tx.change(change('a'))),
        put(first.store, 'silent'),
        expect(first.store.transact(() => Promise.resolve())).rejects.toMatchObject({ code: 'internal' }),
      ]);
    }
    expect([first.store.sequence, first.store.lsn]).toEqual([3, 6]);
    const extents = [first.store.feedExtent(), first.store.redoExtent()];
    await first.store.close();
    const second = await openStore({ engine, directory: first.directory });
    expect([second.store.sequence, second.store.lsn]).toEqual([3, 6]);
    expect([second.store.feedExtent(), second.store.redoExtent()]).toEqual(extents);
    await second.store.transact((tx) => tx.change(change('b')));
    expect([second.store.sequence, second.store.lsn]).toEqual([4, 7]);
    const seen = [...second.store.range(kernelFamilies.changes, {})].flatMap(({ value }) =>
      decodeFeed(value).items.map(({ seq }) => seq),
    );
    expect(seen).toEqual([1, 2, 3, 4]);
    await second.store.close();
  });
});
