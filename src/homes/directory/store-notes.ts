/** What the directory stores for a document store beside it: the feed, words, answers under a key, and leases. */
import { UserVerbs } from './registry/users.js';
import { checkFenceFromOutside } from './fence.js';
import type { Caller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Idempotency } from '../../core/idempotency.js';
import type { CurrentDocument } from '../../datastore/document-store/current-documents.js';
import type { KeptResults, StoreNotes } from '../../datastore/document-store/documents.js';
import type { Scope } from '../../datastore/model.js';
import { userKey } from '../../identity/user-key.js';
import { putStoreEntries, storeEntryKeys } from './find/store-entries.js';
import type { Kernel } from './kernel/kernel.js';
import { dropAnswer, findAnswer, keepEnd, keepStart } from './kept-answers.js';

export class DirectoryStoreNotes implements StoreNotes {
  readonly #kernel: Kernel;
  readonly #users: UserVerbs;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
    this.#users = new UserVerbs(kernel.limits);
  }

  async checkCaller(caller: Caller): Promise<void> {
    checkFenceFromOutside(this.#kernel, caller);
  }

  async answered({ user }: Caller, idempotency: Idempotency): Promise<unknown[] | undefined> {
    return findAnswer(this.#kernel.storeOf(userKey(user)), idempotency, this.#kernel.nowMs());
  }

  begin({ user }: Caller, idempotency: Idempotency): Promise<unknown[] | undefined> {
    const key = userKey(user);
    return this.#kernel.storeOf(key).transact((tx) => {
      const before = findAnswer(tx, idempotency, tx.nowMs);
      if (before === undefined) keepStart(tx, key, idempotency, this.#kernel.limits);
      return before;
    });
  }

  /**
   * One transaction for each user. Only an import has documents of several users, and it stores no answer.
   */
  async end(
    { user: callerUser, agent }: Caller,
    changes: readonly Change[],
    kept: KeptResults | null,
    documents: readonly CurrentDocument[],
  ): Promise<void> {
    const users = new Set([...changes, ...documents].flatMap(({ user }) => user ?? []));
    if (kept !== null) users.add(callerUser);
    for (const user of users) {
      const key = userKey(user);
      await this.#kernel.storeOf(key).transact((tx) => {
        tx.agent = agent;
        const own = changes.filter((change) => change.user === user);
        if (own.length > 0) this.#users.ensure(tx, user);
        for (const change of own) tx.change(change);
        putStoreEntries(
          tx,
          documents.filter((document) => document.user === user),
        );
        if (kept !== null && user === callerUser)
          keepEnd(tx, key, kept.idempotency, kept.results, this.#kernel.limits);
      });
    }
  }

  async wordKeys(scope: Scope, after: string | null, through: string | null): Promise<string[]> {
    return storeEntryKeys(this.#kernel, scope, after, through);
  }

  async abandon({ user }: Caller, idempotency: Idempotency): Promise<void> {
    const key = userKey(user);
    await this.#kernel.storeOf(key).transact((tx) => dropAnswer(tx, key, idempotency));
  }
}
