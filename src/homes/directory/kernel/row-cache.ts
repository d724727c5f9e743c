/** A cache of values made from durable rows. An entry is removed when a commit writes one of its rows. */
import { LRUCache } from 'lru-cache';
import type { WriteOperation } from './engine.js';
import type { Store } from './store.js';

/**
 * Fill it from plain reads only, which see durable rows. A commit removes its rows from the cache before its
 * callers continue. Values are shared, so callers must not change them.
 */
export class RowCache<T extends NonNullable<unknown>> {
  readonly #entries: LRUCache<string, T>;

  /** `nameOf` returns the name of the entry that depends on a row, or undefined for other rows. */
  constructor(
    stores: readonly Store[],
    sizeMax: number,
    nameOf: (operation: WriteOperation) => string | undefined,
  ) {
    this.#entries = new LRUCache({ max: sizeMax });
    for (const store of stores) store.onWritten((operations) => this.#forget(operations, nameOf));
  }

  get(name: string): T | undefined {
    return this.#entries.get(name);
  }

  /** Remembers a value; a full cache removes the least recently used one. */
  set(name: string, value: T): void {
    this.#entries.set(name, value);
  }

  #forget(
    operations: readonly WriteOperation[],
    nameOf: (operation: WriteOperation) => string | undefined,
  ): void {
    if (this.#entries.size === 0) return;
    for (const operation of operations) {
      const name = nameOf(operation);
      if (name !== undefined) this.#entries.delete(name);
    }
  }
}
