/** What the directory stores for a document store beside it: notes, the feed, words, answers under a key, and leases. */
import { UserVerbs } from './registry/users.js';
import { checkFenceFromOutside } from './fence.js';
import type { StoreNotes } from '../../datastore/document-store/notes-port.js';
import { userKey } from '../../identity/user-key.js';
import { putStoreEntries, storeEntryKeys } from './find/store-entries.js';
import { noteUsers, putNote, readNotes, removeNote, renewNote } from './find/store-writes.js';
import type { Kernel } from './kernel/kernel.js';
import type { Transaction } from './kernel/transaction.js';
import { dropAnswer, findAnswer, keepEnd, keepStart } from './kept-answers.js';

export class DirectoryStoreNotes implements StoreNotes {
  readonly isShared = false;
  readonly #kernel: Kernel;
  readonly #users: UserVerbs;

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
    this.#users = new UserVerbs(kernel.limits);
  }

  readonly answered: StoreNotes['answered'] = async ({ user }, idempotency) =>
    findAnswer(this.#kernel.storeOf(userKey(user)), idempotency, this.#kernel.nowMs());

  /** One transaction for each user: only an import has documents of several users, and it stores no answer. */
  readonly begin: StoreNotes['begin'] = async (caller, idempotency, note) => {
    checkFenceFromOutside(this.#kernel, caller);
    let before: unknown[] | undefined;
    await this.#transact([...noteUsers(note), ...(idempotency === null ? [] : [caller.user])], (tx, user) => {
      if (idempotency !== null && user === caller.user) {
        before = findAnswer(tx, idempotency, tx.nowMs);
        if (before !== undefined) return;
        keepStart(tx, userKey(user), idempotency, this.#kernel.limits);
      }
      if (note !== null && noteUsers(note).has(user)) putNote(tx, note, user);
    });
    return before;
  };

  readonly end: StoreNotes['end'] = async (
    { user: callerUser, agent },
    { changes = [], kept = null, documents = [], note, isLast },
  ) => {
    const users = [...changes, ...documents].flatMap(({ user }) => user ?? []);
    if (kept !== null) users.push(callerUser);
    if (isLast) users.push(...noteUsers(note));
    await this.#transact(users, (tx, user) => {
      tx.agent = agent;
      const own = changes.filter((change) => change.user === user);
      if (own.length > 0) this.#users.ensure(tx, user);
      for (const change of own) tx.change(change);
      putStoreEntries(
        tx,
        documents.filter((document) => document.user === user),
      );
      if (kept !== null && user === callerUser)
        keepEnd(tx, userKey(user), kept.idempotency, kept.results, this.#kernel.limits);
      if (isLast && note !== null) removeNote(tx, note, user);
    });
  };

  readonly abandon: StoreNotes['abandon'] = async (caller, idempotency, note) => {
    await this.#transact([...noteUsers(note), ...(idempotency === null ? [] : [caller.user])], (tx, user) => {
      if (idempotency !== null && user === caller.user) dropAnswer(tx, userKey(user), idempotency);
      if (note !== null) removeNote(tx, note, user);
    });
  };

  /** No other server has the directory. */
  readonly readAgain: StoreNotes['readAgain'] = async () => undefined;

  readonly renew: StoreNotes['renew'] = async (notes) => {
    for (const note of notes) await this.#transact(noteUsers(note), (tx, user) => renewNote(tx, note, user));
  };

  readonly takeLeft: StoreNotes['takeLeft'] = async (ageMs) => {
    const before = this.#kernel.nowMs() - ageMs;
    return this.#kernel.stores
      .flatMap((store) => readNotes(store))
      .flatMap(({ note, seenAtMs }) => (seenAtMs <= before ? [note] : []));
  };

  readonly countNotes: StoreNotes['countNotes'] = async () =>
    this.#kernel.stores.reduce((sum, store) => sum + readNotes(store).length, 0);

  readonly wordKeys: StoreNotes['wordKeys'] = async (scope, after, through) =>
    storeEntryKeys(this.#kernel, scope, after, through);

  async #transact(users: Iterable<string>, run: (tx: Transaction, user: string) => void): Promise<void> {
    for (const user of new Set(users))
      await this.#kernel.storeOf(userKey(user)).transact((tx) => run(tx, user));
  }
}
