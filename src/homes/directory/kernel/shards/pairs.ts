/**
 * Writes over two shards, atomic through an intent. Shard 00 commits its own writes together with the intent:
 * everything that the other shard must write. That commit decides. The other shard's group waits for it, and
 * marks the intent as finished in the commit that carries it out. A crash in between leaves an intent without
 * that mark, which the next start carries out.
 */
import { randomBytes } from 'node:crypto';
import type { Change } from '../../../../core/change.js';
import { StoaError } from '../../../../core/errors.js';
import { kernelFamilies as families } from '../families.js';
import type { OpenTransaction } from '../open-transaction.js';
import { refuseAsynchronous } from '../refusals.js';
import { type Store } from '../store.js';
import type { Transaction } from '../transaction.js';

/** The writes for the other shard. */
interface Intent {
  shard: number;
  /** Family, key and value; null deletes. Keys and values in base64. */
  writes: [family: string, key: string, value: string | null][];
  changes: Change[];
}

export class ShardPairs {
  readonly #stores: readonly Store[];
  readonly #onError: (error: unknown) => void;
  /** Writes that are not finished in both shards, with the removal of their intents. */
  readonly #unfinished = new Set<Promise<void>>();
  /** While a backup takes its snapshots of all shards, new writes wait. */
  #pause: Promise<unknown> | undefined;

  constructor(stores: readonly Store[], onError: (error: unknown) => void) {
    this.#stores = stores;
    this.#onError = onError;
  }

  /** With `own` being shard 00 itself, both transactions are the same one. */
  async transact<T>(own: Store, body: (own: Transaction, root: Transaction) => T): Promise<T> {
    const root = this.#root;
    if (own === root) return own.transact((tx) => body(tx, tx));
    while (this.#pause !== undefined) await this.#pause;
    const refusal = own.refusal() ?? root.refusal();
    if (refusal !== undefined) throw refusal;
    const tx = own.begin();
    const rootTx = root.begin(tx);
    // Nothing is awaited before both have ended: until then their shards take no other transaction.
    let done: Promise<T>;
    try {
      const result = body(tx, rootTx);
      refuseAsynchronous(result);
      const intent = this.#keep(own, tx, rootTx);
      done = bothSettled(root.durable(rootTx, result), own.durable(tx, result));
      if (intent !== undefined) this.#track(done, own, intent);
    } catch (error) {
      done = bothSettled<T>(root.undo(rootTx, error), own.undo(tx, error));
    } finally {
      root.end(rootTx);
      own.end(tx);
    }
    return done;
  }

  async between<T>(take: () => Promise<T>): Promise<T> {
    while (this.#pause !== undefined) await this.#pause;
    const taken = this.#settled().then(take);
    this.#pause = taken.catch(() => undefined);
    try {
      return await taken;
    } finally {
      this.#pause = undefined;
    }
  }

  close(): Promise<void> {
    return this.#settled();
  }

  get #root(): Store {
    // A directory has at least one shard.
    return this.#stores[0] as Store;
  }

  /** The key of the intent, or undefined if only one of the two wrote. */
  #keep(own: Store, tx: OpenTransaction, rootTx: OpenTransaction): Buffer | undefined {
    const root = this.#root;
    if (tx.writes.length === 0) rootTx.changes.push(...tx.changes.splice(0));
    if (tx.isEmpty || rootTx.isEmpty) {
      own.keep(tx);
      root.keep(rootTx);
      return undefined;
    }
    const key = randomBytes(16);
    const intent: Intent = {
      shard: this.#stores.indexOf(own),
      writes: tx.writes.map(({ family, key: written, value }) => [
        family,
        written.toString('base64'),
        value?.toString('base64') ?? null,
      ]),
      changes: tx.changes,
    };
    rootTx.put(families.intents, key, Buffer.from(JSON.stringify(intent)));
    tx.put(families.finishedIntents, key, Buffer.alloc(0));
    root.keep(rootTx);
    own.keep(tx, root.pending());
    return key;
  }

  /** Removes the intent, then its mark. In this order, a crash in between has no effect. */
  #track(done: Promise<unknown>, own: Store, key: Buffer): void {
    const cleared = done
      .then(() => this.#root.transact((tx) => tx.delete(families.intents, key)))
      .then(() => own.transact((tx) => tx.delete(families.finishedIntents, key)))
      .catch((error: unknown) => {
        // The caller gets the reason of the failure. A remaining intent is removed at the next start.
        if (!(error instanceof StoaError)) this.#onError(error);
      })
      .finally(() => this.#unfinished.delete(cleared));
    this.#unfinished.add(cleared);
  }

  async #settled(): Promise<void> {
    await Promise.all(this.#unfinished);
  }
}

/**
 * Callers continue only when both shards have committed, so that no later write depends on a group that may
 * still fail.
 */
async function bothSettled<T>(first: Promise<T>, second: Promise<T>): Promise<T> {
  await Promise.allSettled([first, second]);
  await first;
  return second;
}

/** Carries out the intents that a crash has left, once, and removes them. */
export async function finishIntents(stores: readonly Store[]): Promise<void> {
  const root = stores[0] as Store;
  for (const { key, value } of Array.from(root.range(families.intents, {}))) {
    const { shard, writes, changes } = JSON.parse(value.toString()) as Intent;
    const own = stores[shard];
    if (own === undefined)
      throw new StoaError(
        'damaged_data',
        `An unfinished write over two shards names shard ${shard}, which does not exist.`,
        {
          fix: 'Restore a backup into a new directory.',
        },
      );
    await own.transact((tx) => {
      if (tx.get(families.finishedIntents, key) !== undefined) return;
      for (const [family, written, stored] of writes) {
        const writtenKey = Buffer.from(written, 'base64');
        if (stored === null) tx.delete(family, writtenKey);
        else tx.put(family, writtenKey, Buffer.from(stored, 'base64'));
      }
      for (const change of changes) tx.change(change);
      tx.put(families.finishedIntents, key, Buffer.alloc(0));
    });
    await root.transact((tx) => tx.delete(families.intents, key));
  }
  for (const store of stores) {
    const finished = [...store.range(families.finishedIntents, {})];
    if (finished.length > 0)
      await store.transact((tx) => {
        for (const { key } of finished) tx.delete(families.finishedIntents, key);
      });
  }
}
