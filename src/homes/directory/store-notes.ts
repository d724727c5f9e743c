/** What the directory stores for a document store beside it: the feed, words, answers under a key, and leases. */
import { UserVerbs } from './registry/users.js';
import { checkFenceFromOutside } from './fence.js';
import type { StoreNotes } from '../../datastore/document-store/documents.js';
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

  readonly checkCaller: StoreNotes['checkCaller'] = async (caller) => {
    checkFenceFromOutside(this.#kernel, caller);
  };

  readonly answered: StoreNotes['answered'] = async ({ user }, idempotency) =>
    findAnswer(this.#kernel.storeOf(userKey(user)), idempotency, this.#kernel.nowMs());

  readonly begin: StoreNotes['begin'] = ({ user }, idempotency) => {
    const key = userKey(user);
    return this.#kernel.storeOf(key).transact((tx) => {
      const before = findAnswer(tx, idempotency, tx.nowMs);
      if (before === undefined) keepStart(tx, key, idempotency, this.#kernel.limits);
      return before;
    });
  };

  /**
   * One transaction for each user. Only an import has documents of several users, and it stores no answer.
   */
  readonly end: StoreNotes['end'] = async ({ user: callerUser, agent }, changes, kept, documents) => {
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
  };

  readonly wordKeys: StoreNotes['wordKeys'] = async (scope, after, through) =>
    storeEntryKeys(this.#kernel, scope, after, through);

  readonly abandon: StoreNotes['abandon'] = async ({ user }, idempotency) => {
    const key = userKey(user);
    await this.#kernel.storeOf(key).transact((tx) => dropAnswer(tx, key, idempotency));
  };
}
