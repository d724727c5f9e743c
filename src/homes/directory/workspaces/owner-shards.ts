/** The shard in which the records of an owner live, and the entries of their ids in shard 00. */
import { userKey } from '../../../identity/user-key.js';
import type { Owner } from '../../../workspaces/port.js';
import { notFound } from '../../../workspaces/rules/workspaces.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import type { Transaction } from '../kernel/transaction.js';

export class OwnerShards {
  readonly #kernel: Kernel;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /** The shard of the owner. For the operator, who names no owner, it comes from the directory of ids. */
  of(owner: Owner, entity: string, id: string): Store {
    const store = owner === null ? this.#kernel.locate(id) : this.#kernel.storeOf(userKey(owner));
    if (store === undefined) throw notFound(entity, id);
    return store;
  }

  /** A check of a task that does not exist fails later, in any shard. */
  forCheck(owner: Owner, id: string): Store {
    return owner === null
      ? (this.#kernel.locate(id) ?? this.#kernel.root)
      : this.#kernel.storeOf(userKey(owner));
  }

  /**
   * Enters an id into the directory of ids, in the write of its record. The owner is looked up only with
   * several shards.
   */
  enter(root: Transaction, id: string, ownerOf: () => string): void {
    if (this.#kernel.stores.length > 1) this.#kernel.enterIn(root, id, userKey(ownerOf()));
  }
}
