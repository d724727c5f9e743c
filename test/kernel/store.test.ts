import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, describe, expect, it } from 'vitest';
import type { RangeOptions } from '../../src/kernel/engine.js';
import { kernelFamilies } from '../../src/kernel/families.js';
import { decodeFeed, decodeRedo } from '../../src/kernel/log.js';
import type { GroupFacts, Store } from '../../src/kernel/store.js';
import type { Reader, Transaction } from '../../src/kernel/transaction.js';
import { bytes, change, items, openStore, others, removeDirectories, text, turns, until } from './open-store.js';

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

function put(store: Store, key: string, value = 'v'): Promise<void> {
  return store.transact((tx) => tx.put(items, bytes(key), bytes(value)));
}

describe('the order of transactions', () => {
  it('is the order of the calls, also when none is awaited', async () => {
    const { store } = await openStore();
    const answers = await Promise.all(Array.from({ length: 500 }, () => store.transact((tx) => increment(tx))));
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

describe('reads inside a transaction', () => {
  it('see its own writes, the group that collects, the group that is being written, and the disk', async () => {
    const { store, engine } = await openStore();
    await Promise.all([put(store, 'disk'), put(store, 'gone')]);
    const release = engine.holdCommits();
    const writing = put(store, 'writing');
    await until(() => engine.commits === 2);
    const collecting = store.transact((tx) => {
      tx.put(items, bytes('collecting'), bytes('v'));
      tx.delete(items, bytes('gone'));
    });
    const keys = ['disk', 'writing', 'collecting', 'own', 'gone', 'never'];
    const seen = store.transact((tx) => {
      tx.put(items, bytes('own'), bytes('v'));
      expect(keys.map((key) => text(tx, key))).toEqual(['v', 'v', 'v', 'v', undefined, undefined]);
      return tx.getMany(items, keys.map(bytes)).map((value) => value?.toString());
    });
    release();
    expect(await seen).toEqual(['v', 'v', 'v', 'v', undefined, undefined]);
    await Promise.all([writing, collecting]);
  });

  it('keep families apart', async () => {
    const { store } = await openStore();
    await store.transact((tx) => {
      tx.put(items, bytes('k'), bytes('item'));
      expect(tx.get(others, bytes('k'))).toBeUndefined();
      expect([...tx.range(others, {})]).toEqual([]);
    });
  });

  it('have one clock for the whole transaction', async () => {
    let now = 0;
    const { store } = await openStore({ clock: () => (now += 1) });
    await store.transact((tx) => expect(tx.nowMs).toBe(tx.nowMs));
  });
});

const keysOf = (reader: Reader) => Array.from(reader.range(items, {}), ({ key }) => key.toString());

describe('ranges inside a transaction', () => {
  const alphabet = ['a', 'b', 'b\0', 'c', '\xff', 'd', 'e'];

  /** Every key is in one layer or several, put or deleted; the map says what must be seen. */
  async function layered(check: (tx: Transaction, expected: Map<string, string>) => void): Promise<void> {
    const { store, engine } = await openStore();
    const expected = new Map<string, string>();
    const write = (layer: number) => (tx: Transaction) => {
      for (const [index, key] of alphabet.entries()) {
        // The digits of `index` in base 3, one a layer, walk through none, put and delete.
        const action = Math.floor((index * 11) / 3 ** layer) % 3;
        if (action === 1) tx.put(items, bytes(key), bytes(`layer ${layer}`));
        if (action === 2) tx.delete(items, bytes(key));
        if (action === 1) expected.set(key, `layer ${layer}`);
        if (action === 2) expected.delete(key);
      }
    };
    await put(store, 'c', 'disk');
    expected.set('c', 'disk');
    await store.transact(write(0));
    const release = engine.holdCommits();
    const writing = store.transact(write(1));
    await until(() => engine.commits === 3);
    const collecting = store.transact(write(2));
    const own = store.transact((tx) => {
      write(3)(tx);
      check(tx, expected);
    });
    release();
    await Promise.all([writing, collecting, own]);
  }

  it('take every pair of bounds in both directions with every limit over all layers', async () => {
    await layered((tx, expected) => {
      const lower: RangeOptions[] = [{}, ...alphabet.flatMap((key) => [{ gte: bytes(key) }, { gt: bytes(key) }])];
      const upper: RangeOptions[] = [{}, ...alphabet.flatMap((key) => [{ lte: bytes(key) }, { lt: bytes(key) }])];
      for (const from of lower) {
        for (const to of upper) {
          const within = [...expected.keys()].toSorted().filter(
            (key) =>
              (from.gte === undefined || key >= from.gte.toString('latin1')) &&
              (from.gt === undefined || key > from.gt.toString('latin1')) &&
              (to.lte === undefined || key <= to.lte.toString('latin1')) &&
              (to.lt === undefined || key < to.lt.toString('latin1')),
          );
          for (const reverse of [false, true]) {
            const all = (reverse ? within.toReversed() : within).map((key) => [key, expected.get(key)]);
            for (const limit of [undefined, 0, 1, 2, 100]) {
              const options = { ...from, ...to, reverse, ...(limit !== undefined && { limit }) };
              const seen = Array.from(tx.range(items, options), ({ key, value }) => [key.toString('latin1'), value.toString()]);
              expect(seen, JSON.stringify(options)).toEqual(all.slice(0, limit));
            }
          }
        }
      }
    });
  });

  it('show the state at their start while the body writes on', async () => {
    const { store } = await openStore();
    await Promise.all(['a', 'b', 'c'].map((key) => put(store, key)));
    await store.transact((tx) => {
      tx.put(items, bytes('d'), bytes('v'));
      const seen: string[] = [];
      for (const { key, value } of tx.range(items, {})) {
        seen.push(`${key.toString()}=${value.toString()}`);
        tx.delete(items, key);
        tx.put(items, bytes('d'), bytes('changed'));
        tx.put(items, bytes('z'), bytes('new'));
      }
      expect(seen).toEqual(['a=v', 'b=v', 'c=v', 'd=v']);
      expect(Array.from(tx.range(items, {}), ({ key }) => key.toString())).toEqual(['d', 'z']);
    });
  });

  it('show what was written after they were asked for and before they were walked', async () => {
    const { store } = await openStore();
    await store.transact((tx) => {
      const range = tx.range(items, {});
      tx.put(items, bytes('a'), bytes('v'));
      expect(Array.from(range, ({ key }) => key.toString())).toEqual(['a']);
    });
  });

  it('stay in order over many writes since the last one, and when those are undone', async () => {
    const { store } = await openStore();
    const keys = Array.from({ length: 100 }, (_, index) => `k${String((index * 37) % 100).padStart(2, '0')}`);
    const first = store.transact((tx) => {
      tx.put(items, bytes('k50'), bytes('v'));
      expect(keysOf(tx)).toEqual(['k50']);
    });
    const undone = store.transact((tx) => {
      for (const key of keys) tx.put(items, bytes(key), bytes('w'));
      tx.delete(items, bytes('k51'));
      expect(keysOf(tx)).toEqual(keys.toSorted().filter((key) => key !== 'k51'));
      throw new RangeError('no');
    });
    const last = store.transact((tx) => {
      expect(keysOf(tx)).toEqual(['k50']);
      for (const key of keys) tx.put(items, bytes(key), bytes('w'));
      expect(keysOf(tx)).toEqual(keys.toSorted());
    });
    await expect(undone).rejects.toThrow(new RangeError('no'));
    await Promise.all([first, last]);
    expect(keysOf(store)).toEqual(keys.toSorted());
  });

  it('can be walked twice, and left early', async () => {
    const { store, engine } = await openStore();
    await put(store, 'a');
    await store.transact((tx) => {
      tx.put(items, bytes('b'), bytes('v'));
      const range = tx.range(items, {});
      for (const { key } of range) {
        expect(key.toString()).toBe('a');
        break;
      }
      // What the engine holds for a scan goes with it.
      expect(engine.openScans).toBe(0);
      expect([...range]).toHaveLength(2);
      expect([...range]).toHaveLength(2);
    });
  });
});

const rows = (reader: Reader) => Array.from(reader.range(items, {}), ({ key, value }) => `${key.toString()}=${value.toString()}`);

describe('a body that fails', () => {
  it('leaves nothing behind: no write, no timer, no change, no number', async () => {
    const { store, engine } = await openStore();
    await put(store, 'a', 'before');
    const failing = store.transact((tx) => {
      tx.put(items, bytes('a'), bytes('after'));
      tx.put(items, bytes('b'), bytes('after'));
      tx.schedule({ atMs: 1, kind: 'k', reference: bytes('r') });
      tx.change(change('a'));
      throw new RangeError('no');
    });
    await expect(failing).rejects.toThrow(new RangeError('no'));
    expect([text(store, 'a'), text(store, 'b')]).toEqual(['before', undefined]);
    expect([...store.range(kernelFamilies.timers, {})]).toEqual([]);
    await store.transact((tx) => {
      expect(text(tx, 'a')).toBe('before');
      tx.change(change('next'));
    });
    expect(store.sequence).toBe(1);
    expect(engine.commits).toBe(2);
  });

  it('leaves what others wrote before it as it was, in reads and in order, on disk and in the redo log', async () => {
    const { store, engine } = await openStore();
    const neighbours = store.transact((tx) => {
      tx.put(items, bytes('b'), bytes('first'));
      tx.put(items, bytes('d'), bytes('first'));
      expect(rows(tx)).toEqual(['b=first', 'd=first']);
    });
    const failing = store.transact((tx) => {
      for (const key of ['a', 'b', 'c', 'b', 'd']) tx.put(items, bytes(key), bytes('mine'));
      expect(rows(tx)).toEqual(['a=mine', 'b=mine', 'c=mine', 'd=mine']);
      tx.delete(items, bytes('d'));
      tx.put(items, bytes('b'), bytes('mine again'));
      expect(rows(tx)).toEqual(['a=mine', 'b=mine again', 'c=mine']);
      throw new RangeError('no');
    });
    const after = store.transact((tx) => {
      expect(rows(tx)).toEqual(['b=first', 'd=first']);
      tx.put(items, bytes('e'), bytes('last'));
      expect(rows(tx)).toEqual(['b=first', 'd=first', 'e=last']);
    });
    await expect(failing).rejects.toThrow(new RangeError('no'));
    await Promise.all([neighbours, after]);
    expect(rows(store)).toEqual(['b=first', 'd=first', 'e=last']);
    expect(engine.commits).toBe(1);
    const redone = Array.from(store.range(kernelFamilies.redo, {}), ({ value }) => decodeRedo(value).items.map(({ operations }) => operations.map(({ key }) => key.toString())));
    expect(redone).toEqual([[['b', 'd'], ['e']]]);
  });

  it.each([
    ['a key that is too long', (tx: Transaction) => tx.put(items, Buffer.alloc(1979), bytes('v')), 'too_large'],
    ['an empty key', (tx: Transaction) => tx.delete(items, bytes('')), 'internal'],
    ['a family that does not exist', (tx: Transaction) => tx.put('test/none', bytes('k'), bytes('v')), 'internal'],
    ['a read of a family that does not exist', (tx: Transaction) => void tx.get('test/none', bytes('k')), 'internal'],
    ['two lower bounds', (tx: Transaction) => void tx.range(items, { gt: bytes('a'), gte: bytes('a') }), 'internal'],
    // The types forbid it; a caller in JavaScript does not see them.
    ['a value that is no Buffer', (tx: Transaction) => tx.put(items, bytes('k'), 'text' as unknown as Buffer), 'internal'],
  ])('refuses %s and takes nobody with it', async (_what, body, code) => {
    const { store } = await openStore();
    const neighbour = put(store, 'neighbour');
    const failing = store.transact((tx) => {
      tx.put(items, bytes('mine'), bytes('v'));
      body(tx);
    });
    await expect(failing).rejects.toMatchObject({ code });
    await neighbour;
    await put(store, 'later');
    expect([text(store, 'mine'), text(store, 'neighbour'), text(store, 'later')]).toEqual([undefined, 'v', 'v']);
  });

  it('refuses a change that no log could hold and takes nobody with it', async () => {
    const { store } = await openStore();
    const neighbour = store.transact((tx) => tx.change(change('neighbour')));
    const failing = store.transact((tx) => tx.change(change('mine', { version: 1n as unknown as number })));
    await expect(failing).rejects.toThrow(/BigInt/);
    await neighbour;
    await store.transact((tx) => tx.change(change('later')));
    expect(store.sequence).toBe(2);
  });

  it('refuses more writes than the limit', async () => {
    const { store } = await openStore({ limits: { transactionOperationsMax: 3 } });
    const write = (count: number) => store.transact((tx) => {
      for (let index = 0; index < count; index += 1) tx.put(items, bytes(`k${index}`), bytes('v'));
    });
    await write(3);
    await expect(write(4)).rejects.toMatchObject({ code: 'too_large' });
    // Also where the body goes on after the refusal.
    await store.transact((tx) => {
      for (const key of ['a', 'b', 'c']) tx.put(items, bytes(key), bytes('v'));
      expect(() => tx.put(items, bytes('d'), bytes('v'))).toThrow('at most 3 writes');
      tx.put(items, bytes('c'), bytes('again'));
    });
    expect(['c', 'd'].map((key) => store.get(items, bytes(key))?.toString())).toEqual(['again', undefined]);
  });
});

describe('what a body must not do', () => {
  it('await', async () => {
    const { store } = await openStore();
    const failing = store.transact(async (tx) => {
      tx.put(items, bytes('a'), bytes('v'));
      await Promise.resolve();
      tx.put(items, bytes('b'), bytes('v'));
    });
    await expect(failing).rejects.toMatchObject({ code: 'internal', message: expect.stringContaining('asynchronous') });
    await store.flush();
    expect([text(store, 'a'), text(store, 'b')]).toEqual([undefined, undefined]);
  });

  it('start another transaction: neither is kept', async () => {
    const { store } = await openStore();
    const failing = store.transact((tx) => {
      tx.put(items, bytes('outer'), bytes('v'));
      void put(store, 'inner');
    });
    await expect(failing).rejects.toMatchObject({ code: 'internal', message: expect.stringContaining('inside another') });
    await put(store, 'later');
    expect([text(store, 'outer'), text(store, 'inner'), text(store, 'later')]).toEqual([undefined, undefined, 'v']);
  });

  it('hand its transaction out', async () => {
    const { store } = await openStore();
    await put(store, 'a');
    await put(store, 'b');
    let leaked: Transaction | undefined;
    let half: Iterator<unknown> | undefined;
    const range = await store.transact((tx) => {
      leaked = tx;
      half = tx.range(items, {})[Symbol.iterator]();
      half.next();
      return tx.range(items, {});
    });
    const refused = expect.objectContaining({ code: 'internal', message: expect.stringContaining('after its body had returned') });
    expect(() => leaked?.get(items, bytes('a'))).toThrow(refused);
    expect(() => leaked?.put(items, bytes('a'), bytes('v'))).toThrow(refused);
    expect(() => leaked?.change(change('a'))).toThrow(refused);
    expect(() => leaked?.schedule({ atMs: 1, kind: 'k', reference: bytes('r') })).toThrow(refused);
    expect(() => [...range]).toThrow(refused);
    expect(() => half?.next()).toThrow(refused);
  });
});

describe('groups', () => {
  it('make 64 transactions durable with one commit', async () => {
    const groups: GroupFacts[] = [];
    const { store, engine } = await openStore({ onGroup: (group) => groups.push(group) });
    await Promise.all(Array.from({ length: 64 }, (_, index) => put(store, `k${index}`)));
    expect(engine.commits).toBe(1);
    expect(groups).toEqual([{ transactions: 64, operations: 65, sizeBytes: expect.any(Number), commitMs: expect.any(Number) }]);
  });

  it('share commits when 64 writers each go on as soon as they are answered', async () => {
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
    const written = new Map(engine.committed[0]?.map((operation) => [operation.family + operation.key.toString('hex'), operation.value]));
    const feed = decodeFeed(written.get(`${kernelFamilies.changes}0000000000000001`) as Buffer);
    expect(feed.items).toEqual([{ seq: 1, atMs: expect.any(Number), changes: [change('a', { facts: { from: null, to: 'ä' } })] }]);
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
      { lsn: 2, atMs: expect.any(Number), commit: null, operations: [{ family: items, key: bytes('c'), value: bytes('v') }] },
    ]);
  });

  it('write a key once however often it changed', async () => {
    const { store, engine } = await openStore();
    await Promise.all(Array.from({ length: 10 }, () => store.transact((tx) => increment(tx))));
    expect(engine.committed[0]?.filter(({ family }) => family === items)).toMatchObject([{ family: items, key: bytes('count'), value: bytes('10') }]);
  });

  it('leave the memory once they are on disk, also while there is always another on its way', async () => {
    const { store, engine } = await openStore();
    let release = engine.holdCommits();
    const values: WeakRef<Buffer>[] = [];
    const answers: Promise<void>[] = [];
    for (let round = 1; round <= 5; round += 1) {
      // Each runs while the one before it is on its way, and so reads from it.
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
    expect(values.map((value) => value.deref()?.[0])).toEqual([undefined, undefined, undefined, undefined, 5]);
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
    expect([text(store, 'a'), [...store.range(items, {})].length, store.getMany(items, [bytes('a')])]).toEqual([undefined, 0, [undefined]]);
    expect([store.sequence, store.lsn]).toEqual([0, 0]);
    release();
    await writing;
    expect(text(store, 'a')).toBe('v');
  });

  it('a transaction that only read, or threw, waits for what it may have seen', async () => {
    const { store, engine, release, settled, note } = await heldBack();
    const waiting = [note('write', put(store, 'a'))];
    await until(() => engine.commits === 1);
    waiting.push(note('read', store.transact((tx) => text(tx, 'a'))));
    waiting.push(note('throw', store.transact((tx) => expect(text(tx, 'a')).toBeUndefined())));
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

  it('flush ends although others go on writing', async () => {
    const { store } = await openStore();
    const stop = new AbortController();
    const writer = (async () => {
      while (!stop.signal.aborted) await Promise.race([put(store, 'a'), put(store, 'b')]);
    })();
    for (let round = 0; round < 20; round += 1) await store.flush();
    stop.abort();
    await writer;
  });

  it('past the limits new transactions are refused, and taken again when there is room', async () => {
    const { store, engine } = await openStore({ limits: { transactionsWaitingMax: 5, transactionBytesWaitingMax: 1000 } });
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

  it('what a body wrote before it failed takes no room', async () => {
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

  it('close lets everything that was taken become durable, then refuses', async () => {
    const { store, settled, note, release } = await heldBack();
    const waiting = [note('a', put(store, 'a')), note('b', put(store, 'b')), note('close', store.close())];
    await expect(put(store, 'c')).rejects.toMatchObject({ code: 'closed' });
    release();
    await Promise.all(waiting);
    expect(settled).toEqual(['a resolved', 'b resolved', 'close resolved']);
  });
});

describe('listeners', () => {
  it('hear of each commit in order, when it is durable and before its caller', async () => {
    const { store } = await openStore();
    const heard: string[] = [];
    const stop = store.onCommit((commits) => heard.push(...commits.map(({ seq }) => `${seq} durable ${store.sequence >= seq}`)));
    await store.transact((tx) => tx.change(change('a'))).then(() => heard.push('answered'));
    await put(store, 'silent');
    await Promise.all(['b', 'c'].map((id) => store.transact((tx) => tx.change(change(id)))));
    stop();
    await store.transact((tx) => tx.change(change('d')));
    expect(heard).toEqual(['1 durable true', 'answered', '2 durable true', '3 durable true']);
  });
});

describe.each(['lmdb', 'rocksdb'] as const)('numbers on %s', (engine) => {
  it('have no gap over reopening, and none is given to a transaction that announces nothing', async () => {
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
    const seen = [...second.store.range(kernelFamilies.changes, {})].flatMap(({ value }) => decodeFeed(value).items.map(({ seq }) => seq));
    expect(seen).toEqual([1, 2, 3, 4]);
    await second.store.close();
  });
});
