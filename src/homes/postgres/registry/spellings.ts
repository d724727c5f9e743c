/**
 * Refuses a second spelling of a known user. A user has two possible spellings: the readable id, and 64 hex
 * digits that are the hash of a readable id.
 */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../../core/entries-at-most.js';
import { secondSpelling } from '../../../registry/refusals.js';
import type { Queryable } from '../database/connection.js';
import { spellingOf } from './users.js';

export class Spellings {
  /**
   * Users that are stored under this spelling. A spelling never changes, on any server, so an entry goes stale only
   * when the database is restored. It saves a statement in each read and write of the registry.
   */
  readonly #known: LRUCache<string, true>;

  constructor(knownMax: number) {
    this.#known = new LRUCache(entriesAtMost(knownMax));
  }

  clear(): void {
    this.#known.clear();
  }

  /**
   * Inside a transaction, pass its connection as `sql`: all other connections may be waiting for this
   * transaction.
   */
  check(sql: Queryable, user: string): void | Promise<void> {
    return this.#known.has(user) ? undefined : this.#read(sql, user);
  }

  async #read(sql: Queryable, user: string): Promise<void> {
    const spelling = await spellingOf(sql, user);
    if (spelling === undefined) return;
    if (spelling !== user) throw secondSpelling();
    this.#known.set(user, true);
  }
}
