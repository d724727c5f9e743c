/** Where the records of a user are: the shard, and the user's key in it. */
import { userKey } from '../../../identity/user-key.js';
import type { UserScope } from '../../../registry/port.js';
import { agentNotFound } from '../../../registry/refusals.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import type { Transaction } from '../kernel/transaction.js';
import { type DirectoryStep, type Now, step } from '../step.js';
import { findAgent } from './rows.js';
import { keyOfUser } from './users.js';

/** The store to read, and the key of the user whose records are visible. */
export interface Place {
  store: Store;
  user: Buffer | null;
}

export class Scopes {
  readonly #kernel: Kernel;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
  }

  /**
   * The store of a record in this scope. An id that the directory of ids does not know is looked up in shard
   * 00, where it is not found.
   */
  place(scope: UserScope, id: string): Place {
    if (scope === null) return { store: this.#kernel.locate(id) ?? this.#kernel.root, user: null };
    const user = this.keyOf(scope);
    return { store: this.#kernel.storeOf(user), user };
  }

  /** Throws for an agent that does not exist in this scope. */
  storeOfAgent(scope: UserScope, agentId: string): Store {
    const { store, user } = this.place(scope, agentId);
    if (findAgent(store, user, agentId) === undefined) throw agentNotFound(agentId);
    return store;
  }

  /** Whether shard 00 knows the id as another user's. */
  isOfAnother(root: Transaction, id: string, user: Buffer): boolean {
    return this.#kernel.ownerIn(root, id)?.equals(user) === false;
  }

  keyOf(user: string): Buffer {
    return keyOfUser(this.#kernel.storeOf(userKey(user)), user);
  }

  /** A step in the shard of a record. */
  step<Result>(
    scope: UserScope,
    id: string,
    run: (tx: Transaction, user: Buffer | null) => Result & Now<Result>,
  ): DirectoryStep<Result> {
    const { store, user } = this.place(scope, id);
    return step<Result>(store, (tx) => run(tx, user));
  }
}
