/**
 * Writes over two shards, atomic through an intent. Shard 00 commits its own writes together with the intent:
 * the transaction of the other shard, and all earlier ones that are not on disk there, because it may build on
 * them. That commit decides. The other shard's group waits for it. A crash in between leaves an intent with
 * transactions that the other shard does not have: the next start carries them out.
 */
import { StoaError } from '../../../../core/errors.js';
import { kernelFamilies as families } from '../families.js';
import { decodeRedo, encodeRedo, positionKey, positionOf } from '../feed/log.js';
import type { OpenTransaction } from '../open-transaction.js';
import { refuseAsynchronous } from '../refusals.js';
import { type Store } from '../store.js';
import type { Transaction } from '../transaction.js';

/** Written with each transaction of an intent, so that none of them is empty and all keep their numbers. */
const finishedKey = Buffer.from('finished_intent');

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
      if (intent !== undefined) this.#track(done, intent);
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
    const frees = tx.frees || rootTx.frees;
    own.admit(tx, frees);
    root.admit(rootTx, frees);
    if (tx.isEmpty || rootTx.isEmpty) {
      own.keep(tx, frees);
      root.keep(rootTx, frees);
      return undefined;
    }
    const key = intentKey(this.#stores.indexOf(own), own.newestLsn + 1);
    // The row is taken first, with an empty value: once one shard has the write, the other must not refuse it.
    rootTx.put(families.intents, key, Buffer.alloc(0));
    own.keep(tx, frees);
    rootTx.put(families.intents, key, encodeRedo(0, own.takeForIntent()));
    root.keep(rootTx, frees);
    own.commitAfter(root);
    return key;
  }

  /** Removes the intent when both shards are durable. */
  #track(done: Promise<unknown>, key: Buffer): void {
    const removed = done
      .then(() => this.#root.transact((tx) => tx.delete(families.intents, key)))
      .catch((error: unknown) => {
        // The caller gets the reason of the failure. A remaining intent is removed at the next start.
        if (!(error instanceof StoaError)) this.#onError(error);
      })
      .finally(() => this.#unfinished.delete(removed));
    this.#unfinished.add(removed);
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

/** By shard, then in the order of its transactions. */
function intentKey(shard: number, lsn: number): Buffer {
  return Buffer.concat([Buffer.of(shard >> 8, shard & 0xff), positionKey(lsn)]);
}

export function shardOfIntent(key: Buffer): number {
  return key.readUInt16BE(0);
}

/** The other shard of a write over two shards, and the number of its transaction there. */
export function pairOfIntent(key: Buffer): { shard: number; lsn: number } {
  return { shard: shardOfIntent(key), lsn: positionOf(key.subarray(2)) };
}

/**
 * Carries out what a crash has left, and removes the intents. The number of a transaction says whether the
 * shard has it, so nothing else may be written to a shard before.
 */
export async function finishIntents(stores: readonly Store[]): Promise<void> {
  const root = stores[0] as Store;
  for (const { key, value } of Array.from(root.range(families.intents, {}))) {
    const shard = shardOfIntent(key);
    const own = stores[shard];
    if (own === undefined)
      throw new StoaError(
        'damaged_data',
        `An unfinished write over two shards names shard ${shard}, which does not exist.`,
        { fix: 'Restore a backup into a new directory.' },
      );
    for (const { lsn, commit, operations } of decodeRedo(value).items) {
      if (lsn <= own.lsn) continue;
      await own.transact((tx) => {
        for (const operation of operations)
          if (operation.value === undefined) tx.delete(operation.family, operation.key);
          else tx.put(operation.family, operation.key, operation.value);
        for (const change of commit?.changes ?? []) tx.change(change);
        tx.put(families.meta, finishedKey, Buffer.from(String(lsn)));
      });
    }
    await root.transact((tx) => tx.delete(families.intents, key));
  }
}
