import { afterAll, describe, expect, it } from 'vitest';
import type { RangeOptions } from '../../../../src/homes/directory/kernel/engine.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { decodeRedo } from '../../../../src/homes/directory/kernel/feed/log.js';
import type { Reader, Transaction } from '../../../../src/homes/directory/kernel/transaction.js';
import {
  bytes,
  change,
  items,
  openStore,
  others,
  put,
  removeDirectories,
  text,
  until,
} from './open-store.js';

afterAll(removeDirectories);

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

  it('accept every pair of bounds in both directions with every limit over all layers', async () => {
    await layered((tx, expected) => {
      const lower: RangeOptions[] = [
        {},
        ...alphabet.flatMap((key) => [{ gte: bytes(key) }, { gt: bytes(key) }]),
      ];
      const upper: RangeOptions[] = [
        {},
        ...alphabet.flatMap((key) => [{ lte: bytes(key) }, { lt: bytes(key) }]),
      ];
      for (const from of lower) {
        for (const to of upper) {
          const within = [...expected.keys()]
            .toSorted()
            .filter(
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
              const seen = Array.from(tx.range(items, options), ({ key, value }) => [
                key.toString('latin1'),
                value.toString(),
              ]);
              expect(seen, JSON.stringify(options)).toEqual(all.slice(0, limit));
            }
          }
        }
      }
    });
  });

  it('show the state at their start while the body writes more', async () => {
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

  it('show writes that were made after the call and before the first item was read', async () => {
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
    for (const key of ['a', 'c', 'd']) await put(store, key);
    await store.transact((tx) => {
      tx.put(items, bytes('b'), bytes('v'));
      const range = tx.range(items, {});
      for (const { key } of range) {
        expect(key.toString()).toBe('a');
        break;
      }
      // What the engine holds for a scan goes with it.
      expect(engine.openScans).toBe(0);
      expect([...range]).toHaveLength(4);
      expect([...range]).toHaveLength(4);
    });
  });
});

const rows = (reader: Reader) =>
  Array.from(reader.range(items, {}), ({ key, value }) => `${key.toString()}=${value.toString()}`);

describe('a body that fails', () => {
  it('leaves no write, no timer, no change and no number', async () => {
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

  it('does not affect earlier writes of others, in reads, on disk and in the redo log', async () => {
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
    const redone = Array.from(store.range(kernelFamilies.redo, {}), ({ value }) =>
      decodeRedo(value).items.map(({ operations }) => operations.map(({ key }) => key.toString())),
    );
    expect(redone).toEqual([[['b', 'd'], ['e']]]);
  });

  it.each([
    [
      'a key that is too long',
      (tx: Transaction) => tx.put(items, Buffer.alloc(1979), bytes('v')),
      'too_large',
    ],
    ['an empty key', (tx: Transaction) => tx.delete(items, bytes('')), 'internal'],
    [
      'a family that does not exist',
      (tx: Transaction) => tx.put('test/none', bytes('k'), bytes('v')),
      'internal',
    ],
    [
      'a read of a family that does not exist',
      (tx: Transaction) => void tx.get('test/none', bytes('k')),
      'internal',
    ],
    [
      'two lower bounds',
      (tx: Transaction) => void tx.range(items, { gt: bytes('a'), gte: bytes('a') }),
      'internal',
    ],
    // The types forbid it; a caller in JavaScript does not see them.
    [
      'a value that is no Buffer',
      (tx: Transaction) => tx.put(items, bytes('k'), 'text' as unknown as Buffer),
      'internal',
    ],
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
    expect([text(store, 'mine'), text(store, 'neighbour'), text(store, 'later')]).toEqual([
      undefined,
      'v',
      'v',
    ]);
  });

  it('refuses a change that the log cannot hold, without affecting others', async () => {
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
    const write = (count: number) =>
      store.transact((tx) => {
        for (let index = 0; index < count; index += 1) tx.put(items, bytes(`k${index}`), bytes('v'));
      });
    await write(3);
    await expect(write(4)).rejects.toMatchObject({ code: 'too_large' });
    // Also if the body continues after the refusal.
    await store.transact((tx) => {
      for (const key of ['a', 'b', 'c']) tx.put(items, bytes(key), bytes('v'));
      expect(() => tx.put(items, bytes('d'), bytes('v'))).toThrow(
        'exceeds 3 writes (transactionOperationsMax)',
      );
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
    await expect(failing).rejects.toMatchObject({
      code: 'internal',
      message: expect.stringContaining('returned a promise'),
    });
    await store.flush();
    expect([text(store, 'a'), text(store, 'b')]).toEqual([undefined, undefined]);
  });

  it('start another transaction: neither is kept', async () => {
    const { store } = await openStore();
    const failing = store.transact((tx) => {
      tx.put(items, bytes('outer'), bytes('v'));
      void put(store, 'inner');
    });
    await expect(failing).rejects.toMatchObject({
      code: 'internal',
      message: expect.stringContaining('inside another'),
    });
    await put(store, 'later');
    expect([text(store, 'outer'), text(store, 'inner'), text(store, 'later')]).toEqual([
      undefined,
      undefined,
      'v',
    ]);
  });

  it('use its transaction after the body has ended', async () => {
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
    const refused = expect.objectContaining({
      code: 'internal',
      message: expect.stringContaining('after its body had returned'),
    });
    expect(() => leaked?.get(items, bytes('a'))).toThrow(refused);
    expect(() => leaked?.put(items, bytes('a'), bytes('v'))).toThrow(refused);
    expect(() => leaked?.change(change('a'))).toThrow(refused);
    expect(() => leaked?.schedule({ atMs: 1, kind: 'k', reference: bytes('r') })).toThrow(refused);
    expect(() => [...range]).toThrow(refused);
    expect(() => half?.next()).toThrow(refused);
  });
});
