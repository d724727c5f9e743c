/** What was made of durable rows lately, dropped as soon as a commit writes one of them. */
import { LRUCache } from 'lru-cache';
import type { WriteOperation } from './engine.js';
import type { Store } from './store.js';

/**
 * Fill it from plain reads only. Those see durable rows, and so does the cache, because a commit removes its
 * rows before its callers continue. Values are shared, so nobody may change them.
 */
export class RowCache<T extends NonNullable<unknown>> {
  readonly #entries: LRUCache<string, T>;

  /**
   * `nameOf` says under which name a row is remembered here; undefined for rows that are of no importance.
   */
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

  /** Remembers a value; a full cache drops the one that was not asked for the longest. */
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
