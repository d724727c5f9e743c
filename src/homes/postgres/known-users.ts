/**
 * Users that exist. A user is created by its first write and never deleted, so a user that was seen is not
 * looked up again, unless the database is restored.
 */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../core/entries-at-most.js';
import type { Work } from './write/work.js';

/** Creates the user if it is new, in the transaction of its first write. */
export type EnsureUser = (work: Work, user: string) => Promise<void>;

const usersMax = 10_000;

export class KnownUsers {
  readonly #ensure: EnsureUser;
  /** Never dropped for its age. It saves a statement in each write. */
  readonly #known = new LRUCache<string, true>(entriesAtMost(usersMax));

  constructor(ensure: EnsureUser) {
    this.#ensure = ensure;
  }

  clear(): void {
    this.#known.clear();
  }

  has(user: string): boolean {
    return this.#known.has(user);
  }

  async ensure(work: Work, user: string): Promise<void> {
    if (this.has(user)) return;
    await this.#ensure(work, user);
    work.afterCommit(() => void this.#known.set(user, true));
  }
}
