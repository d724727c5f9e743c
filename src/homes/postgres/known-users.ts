/** Users that exist: one is made with its first write, and never taken away, so that one that was seen needs no second look. */
import type { Limits } from '../../core/settings/limits.js';
import type { Work } from './work.js';

/** Makes the user where it is new, in the transaction of its first write. */
export type EnsureUser = (work: Work, user: string) => Promise<void>;

export class KnownUsers {
  readonly #ensure: EnsureUser;
  readonly #max: number;
  readonly #known = new Set<string>();

  constructor(ensure: EnsureUser, { tokensCachedMax }: Limits) {
    this.#ensure = ensure;
    this.#max = tokensCachedMax;
  }

  has(user: string): boolean {
    return this.#known.has(user);
  }

  async ensure(work: Work, user: string): Promise<void> {
    if (this.has(user)) return;
    await this.#ensure(work, user);
    work.afterCommit(() => {
      if (this.#known.size >= this.#max) this.#known.clear();
      this.#known.add(user);
    });
  }
}
