import * as fc from 'fast-check';
import { afterAll, describe, expect, it } from 'vitest';
import type { EngineName } from '../../../../src/core/settings/store-config.js';
import type { Entry, RangeOptions } from '../../../../src/homes/directory/kernel/engine.js';
import { StoaError } from '../../../../src/core/errors.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { decodeFeed, decodeRedo } from '../../../../src/homes/directory/kernel/feed/log.js';
import type { Store } from '../../../../src/homes/directory/kernel/store.js';
import type { Reader, Transaction } from '../../../../src/homes/directory/kernel/transaction.js';
import { bytes, change, families, openStore, removeDirectories, type OpenStore } from './open-store.js';

afterAll(removeDirectories);

interface Range {
  lower: string | undefined;
  lowerOpen: boolean;
  upper: string | undefined;
  upperOpen: boolean;
  reverse: boolean;
  limit: number | undefined;
}

type Step =
  | { do: 'put'; family: string; key: string; value: string }
  | { do: 'delete'; family: string; key: string }
  | { do: 'get'; family: string; key: string }
  | { do: 'range'; family: string; range: Range }
  | { do: 'announce' }
  | { do: 'throw' };

type Action =
  | { do: 'transact'; steps: Step[] }
  | { do: 'read'; family: string; range: Range }
  /** Lets running commits continue for some turns of the event loop. */
  | { do: 'turns'; count: number }
  | { do: 'flush' }
  | { do: 'fail'; how: 'disk_full' | 'before' | 'after' }
  | { do: 'reopen' };

const family = fc.constantFrom(...families);
/** A few difficult keys: neighbours, a prefix of another, the first and the last byte. */
const key = fc.constantFrom('\0', 'a', 'a\0', 'aa', 'b', 'c', 'c\xff', 'd', '\xff', '\xff\xff');
const range: fc.Arbitrary<Range> = fc.record({
  lower: fc.option(key, { nil: undefined }),
  lowerOpen: fc.boolean(),
  upper: fc.option(key, { nil: undefined }),
  upperOpen: fc.boolean(),
  reverse: fc.boolean(),
  limit: fc.option(fc.nat(5), { nil: undefined }),
});
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      do: fc.constant('put' as const),
      family,
      key,
      value: fc.string({ maxLength: 4 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('delete' as const), family, key }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('get' as const), family, key }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('range' as const), family, range }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('announce' as const) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('throw' as const) }) },
);
const action: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record({ do: fc.constant('transact' as const), steps: fc.array(step, { maxLength: 8 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('read' as const), family, range }) },
  {
    weight: 5,
    arbitrary: fc.record({ do: fc.constant('turns' as const), count: fc.integer({ min: 1, max: 4 }) }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('flush' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('fail' as const),
      how: fc.constantFrom('disk_full' as const, 'before' as const, 'after' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('reopen' as const) }) },
);

/** An ordered map with everything in it: family, a zero, key. */
type Model = ReadonlyMap<string, string>;

function scan(model: Model, name: string, wanted: Range): [string, string][] {
  const within = [...model]
    .filter(([at]) => at.startsWith(`${name}|`))
    .map(([at, value]): [string, string] => [at.slice(name.length + 1), value])
    .filter(
      ([at]) => wanted.lower === undefined || (wanted.lowerOpen ? at > wanted.lower : at >= wanted.lower),
    )
    .filter(
      ([at]) => wanted.upper === undefined || (wanted.upperOpen ? at < wanted.upper : at <= wanted.upper),
    )
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  return (wanted.reverse ? within.toReversed() : within).slice(0, wanted.limit);
}

function boundsOf({ lower, lowerOpen, upper, upperOpen, reverse, limit }: Range): RangeOptions {
  return {
    ...(lower !== undefined && (lowerOpen ? { gt: bytes(lower) } : { gte: bytes(lower) })),
    ...(upper !== undefined && (upperOpen ? { lt: bytes(upper) } : { lte: bytes(upper) })),
    reverse,
    ...(limit !== undefined && { limit }),
  };
}

function read(reader: Reader, name: string, wanted: Range): [string, string][] {
  return Array.from(reader.range(name, boundsOf(wanted)), ({ key, value }: Entry) => [
    key.toString('latin1'),
    value.toString(),
  ]);
}

const everything: Range = {
  lower: undefined,
  lowerOpen: false,
  upper: undefined,
  upperOpen: false,
  reverse: false,
  limit: undefined,
};

function contentOf(store: Store): Model {
  return new Map(
    families.flatMap((name) => read(store, name, everything).map(([at, value]) => [`${name}|${at}`, value])),
  );
}

/** Runs the body against the store and the model side by side; every read must agree. */
function run(tx: Transaction, model: Map<string, string>, steps: readonly Step[]): void {
  for (const one of steps) {
    if (one.do === 'put') {
      tx.put(one.family, bytes(one.key), Buffer.from(one.value));
      model.set(`${one.family}|${one.key}`, one.value);
    } else if (one.do === 'delete') {
      tx.delete(one.family, bytes(one.key));
      model.delete(`${one.family}|${one.key}`);
    } else if (one.do === 'get') {
      expect(tx.get(one.family, bytes(one.key))?.toString()).toBe(model.get(`${one.family}|${one.key}`));
    } else if (one.do === 'range') {
      expect(read(tx, one.family, one.range)).toEqual(scan(model, one.family, one.range));
    } else if (one.do === 'announce') {
      tx.change(change('x'));
    } else {
      throw new Thrown();
    }
  }
}

class Thrown extends Error {}

/** The store beside its model: the states after each transaction since the last one known to be on disk. */
class Comparison {
  opened!: OpenStore;
  readonly #engine: EngineName;
  /** `states[i]` is after the i-th transaction of this opening; the first is what was on disk then. */
  #states: Model[] = [new Map()];
  #acknowledged = 0;
  #waiting: Promise<void>[] = [];

  constructor(engine: EngineName) {
    this.#engine = engine;
  }

  async open(): Promise<void> {
    this.opened = await openStore({
      engine: this.#engine,
      ...(this.opened && { directory: this.opened.directory }),
    });
  }

  transact(steps: readonly Step[]): void {
    const next = new Map(this.#states.at(-1));
    let joined = false;
    const number = this.#states.length;
    const done = this.opened.store.transact((tx) => {
      run(tx, next, steps);
      joined = true;
    });
    if (joined) this.#states.push(next);
    this.#waiting.push(
      done.then(
        () => {
          this.#acknowledged = Math.max(this.#acknowledged, number);
        },
        (error: unknown) => this.#refused(error),
      ),
    );
  }

  /** A plain read shows the state after some transaction: no earlier than the last one acknowledged. */
  checkRead(name: string, wanted: Range): void {
    const possible = this.#states.slice(this.#acknowledged).map((state) => scan(state, name, wanted));
    expect(possible).toContainEqual(read(this.opened.store, name, wanted));
  }

  /** Waits for all; after that the store holds exactly the last state that was acknowledged. */
  async settle(): Promise<void> {
    await Promise.all(this.#waiting.splice(0));
    if (this.opened.store.stopped !== undefined) {
      await this.reopen();
      return;
    }
    this.#restart(this.#states[this.#acknowledged] as Model);
  }

  /** What is on disk must be the state after some transaction, none before the last acknowledged one. */
  async reopen(): Promise<void> {
    await this.opened.store.close();
    await Promise.all(this.#waiting.splice(0));
    if (this.#engine === 'memory') {
      this.opened = await openStore();
      this.#states = [new Map()];
      this.#acknowledged = 0;
      return;
    }
    await this.open();
    const content = contentOf(this.opened.store);
    expect(this.#states.slice(this.#acknowledged)).toContainEqual(content);
    this.#restart(content);
  }

  #restart(state: Model): void {
    expect(contentOf(this.opened.store)).toEqual(state);
    this.#states = [state];
    this.#acknowledged = 0;
    checkLogs(this.opened.store);
  }

  #refused(error: unknown): void {
    if (error instanceof Thrown) return;
    // An assertion that failed inside a body comes this way too.
    expect(error).toMatchObject({ code: expect.stringMatching(/^(disk_full|writes_stopped)$/) });
    // With the group that had no room, all on top of it failed: the next transaction starts from what is on
    // disk.
    if (error instanceof StoaError && error.code === 'disk_full')
      this.#states.length = this.#acknowledged + 1;
  }
}

/** Both logs count without gaps, and the redo log alone leads to what is stored. */
function checkLogs(store: Store): void {
  const seqs = [...store.range(kernelFamilies.changes, {})].flatMap(({ value }) =>
    decodeFeed(value).items.map(({ seq }) => seq),
  );
  expect(seqs).toEqual(Array.from({ length: store.sequence }, (_, index) => index + 1));
  const redone = new Map<string, string>();
  const transactions = [...store.range(kernelFamilies.redo, {})].flatMap(
    ({ value }) => decodeRedo(value).items,
  );
  for (const { operations } of transactions) {
    for (const { family: name, key: at, value } of operations) {
      if (value === undefined) redone.delete(`${name}|${at.toString('latin1')}`);
      else redone.set(`${name}|${at.toString('latin1')}`, value.toString());
    }
  }
  expect(redone).toEqual(contentOf(store));
  expect(transactions.map(({ lsn }) => lsn)).toEqual(
    Array.from({ length: store.lsn }, (_, index) => index + 1),
  );
  expect(transactions.flatMap(({ commit }) => (commit === null ? [] : [commit.seq]))).toEqual(seqs);
}

async function compare(engine: EngineName, actions: readonly Action[]): Promise<void> {
  const comparison = new Comparison(engine);
  await comparison.open();
  for (const one of actions) {
    if (one.do === 'transact') comparison.transact(one.steps);
    else if (one.do === 'read') comparison.checkRead(one.family, one.range);
    else if (one.do === 'turns')
      for (let turn = 0; turn < one.count; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    else if (one.do === 'flush') await comparison.settle();
    else if (one.do === 'reopen') await comparison.reopen();
    else comparison.opened.engine.failNext(one.how);
  }
  await comparison.settle();
  await comparison.opened.store.close();
}

const rounds: Record<EngineName, number> = { memory: 250, lmdb: 20, rocksdb: 8 };

describe.each(Object.entries(rounds) as [EngineName, number][])('on %s', (engine, numRuns) => {
  it('a store behaves as an ordered map, through failures and reopening', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 60, size: 'max' }), (actions) =>
        compare(engine, actions),
      ),
      { numRuns },
    );
  });
});
