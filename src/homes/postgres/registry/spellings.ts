/** Refuses a second spelling of a known user: 64 hex digits that are the hash of a readable id. */
import { LRUCache } from 'lru-cache';
import { secondSpelling } from '../../../registry/refusals.js';
import type { Queryable } from '../connection.js';
import { spellingOf } from './users.js';

export class Spellings {
  /** Users that were found under this very spelling. It never changes again, on no server. */
  readonly #known: LRUCache<string, true>;

  constructor(knownMax: number) {
    this.#known = new LRUCache({ max: knownMax });
  }

  /** Inside of a transaction, ask on its own connection: all others may be waiting for the same. */
  check(sql: Queryable, user: string): void | Promise<void> {
    return this.#known.has(user) ? undefined : this.#ask(sql, user);
  }

  async #ask(sql: Queryable, user: string): Promise<void> {
    const spelling = await spellingOf(sql, user);
    if (spelling === undefined) return;
    if (spelling !== user) throw secondSpelling();
    this.#known.set(user, true);
  }
}
