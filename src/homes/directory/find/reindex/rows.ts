/** The rows of jobs that file everything again: how far each came. A job of one user is in the shard of the user. */
import type { Scope } from '../../../../datastore/model.js';
import type { ReindexScope } from '../../../../find/port.js';
import { userKey } from '../../../../identity/user-key.js';
import { type RangeOptions, prefixRange } from '../../kernel/engine.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Store } from '../../kernel/store.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { NamedKind } from '../names.js';
import { findFamilies, messagesPartition, partitionBytes } from '../rows.js';

/** How far a job has come. `after` is the last row of its kind that was read, or a position in the store. */
export interface Progress {
  readonly total: number;
  readonly done: number;
  /** How many shards the directory has. With another number the job begins again. */
  readonly shards: number;
  readonly shard: number;
  /** `store`: reads the documents of the store beside the directory. */
  readonly kind: NamedKind | 'store';
  readonly after: string | null;
}

/** The row of a job that has not begun. */
const notBegun = Buffer.from('null');

/** Thrown to a job whose row was set back to its beginning. */
export class BegunAgain extends Error {}

/** The stored progress of one job. */
export class ReindexRow {
  readonly #store: Store;
  readonly #key: Buffer;
  #stored: Buffer | undefined;

  constructor(kernel: Kernel, scope: ReindexScope) {
    this.#store = scope.user === null ? kernel.root : kernel.storeOf(userKey(scope.user));
    this.#key = keyOf(scope);
  }

  get exists(): boolean {
    return this.#store.get(findFamilies.reindex, this.#key) !== undefined;
  }

  /** Null if the job has not begun. */
  read(): Progress | null {
    this.#stored = this.#store.get(findFamilies.reindex, this.#key);
    // Only this file writes these rows.
    return this.#stored === undefined ? null : (JSON.parse(this.#stored.toString()) as Progress | null);
  }

  async save(progress: Progress): Promise<void> {
    const value = Buffer.from(JSON.stringify(progress));
    await this.#change((tx) => tx.put(findFamilies.reindex, this.#key, value));
    this.#stored = value;
  }

  remove(): Promise<void> {
    return this.#change((tx) => tx.delete(findFamilies.reindex, this.#key));
  }

  #change(change: (tx: Transaction) => void): Promise<void> {
    return this.#store.transact((tx) => {
      const stored = tx.get(findFamilies.reindex, this.#key);
      if (stored !== undefined && this.#stored?.equals(stored) !== true) throw new BegunAgain();
      change(tx);
    });
  }
}

/** The documents of the namespace have to be filed again from the first one. */
export function reindexAgain(tx: Transaction, { user, namespace }: Scope): void {
  tx.put(findFamilies.reindex, keyOf({ user, namespace }), notBegun);
}

export function isNotBegun(value: Buffer | undefined): boolean {
  return value?.equals(notBegun) === true;
}

export function scopeOf(key: Buffer): ReindexScope {
  return JSON.parse(key.toString('utf8', partitionBytes)) as ReindexScope; // Only `keyOf` makes these keys.
}

/** The scopes of the jobs in a shard, or of one partition. */
export function reindexedScopes(reader: Reader, range: RangeOptions = {}): ReindexScope[] {
  return Array.from(reader.range(findFamilies.reindex, range), ({ key }) => scopeOf(key));
}

/** Whether the documents of a namespace are being filed again, or will be. */
export function isReindexed(reader: Reader, partition: Buffer, collection: string): boolean {
  return reindexedScopes(reader, prefixRange(partition)).some(({ namespace }) => namespace === collection);
}

function keyOf({ user, namespace }: ReindexScope): Buffer {
  const partition = user === null ? messagesPartition : userKey(user);
  return Buffer.concat([partition, Buffer.from(JSON.stringify({ user, namespace }))]);
}
