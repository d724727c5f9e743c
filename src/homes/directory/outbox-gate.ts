/** The way from a database's outbox into this directory's feed: each change once, also over crashes. */
import type { OutboxChanges, OutboxGate } from '../../datastore/port.js';
import { userKey } from '../../identity/user-key.js';
import type { Kernel } from './kernel/kernel.js';
import type { Store } from './kernel/store.js';
import { dataFamilies as families } from './datastore/rows.js';
import { UserVerbs } from './registry/users.js';

interface Mark {
  store: Store;
  key: Buffer;
}

const userBytes = 32;

/**
 * A change is marked by user and number in the commit that puts it into the feed. The mark stays until the
 * outbox has deleted the number, and a later commit removes it. So a change that is brought again after a
 * crash is recognised, and marks do not accumulate.
 */
export class DirectoryOutboxGate implements OutboxGate {
  readonly feed: string;
  readonly #kernel: Kernel;
  readonly #users: UserVerbs;
  /** For each number, one mark per user. */
  readonly #marks = new Map<string, Mark[]>();
  readonly #surplus = new Map<Store, Buffer[]>();

  constructor(kernel: Kernel) {
    this.#kernel = kernel;
    this.#users = new UserVerbs(kernel.limits);
    this.feed = kernel.manifest.id;
  }

  async carry(entries: readonly OutboxChanges[]): Promise<void> {
    const user = entries[0]?.changes[0]?.user ?? '';
    const owner = userKey(user);
    const store = this.#kernel.storeOf(owner);
    const surplus = this.#take(store);
    try {
      await store.transact((tx) => {
        this.#users.ensure(tx, user);
        for (const key of surplus) tx.delete(families.carried, key);
        for (const { number, changes } of entries) {
          const key = markKey(owner, number);
          if (tx.get(families.carried, key) !== undefined) continue;
          tx.put(families.carried, key, Buffer.alloc(0));
          for (const change of changes) tx.change(change);
        }
      });
    } catch (error) {
      this.#surplus.set(store, [...(this.#surplus.get(store) ?? []), ...surplus]);
      throw error;
    }
    for (const { number } of entries) this.#mark(number, { store, key: markKey(owner, number) });
  }

  forget(numbers: readonly string[]): void {
    for (const number of numbers) {
      for (const { store, key } of this.#marks.get(number) ?? [])
        this.#surplus.set(store, [...(this.#surplus.get(store) ?? []), key]);
      this.#marks.delete(number);
    }
  }

  carried(): string[] {
    for (const store of this.#kernel.stores) {
      for (const { key } of store.range(families.carried, {})) this.#mark(numberOf(key), { store, key });
    }
    return [...this.#marks.keys()];
  }

  async close(): Promise<void> {
    for (const store of this.#surplus.keys()) {
      const surplus = this.#take(store);
      await store.transact((tx) => {
        for (const key of surplus) tx.delete(families.carried, key);
      });
    }
  }

  #mark(number: string, mark: Mark): void {
    const marks = this.#marks.get(number);
    if (marks === undefined) this.#marks.set(number, [mark]);
    else if (!marks.some(({ key }) => key.equals(mark.key))) marks.push(mark);
  }

  #take(store: Store): Buffer[] {
    const keys = this.#surplus.get(store) ?? [];
    this.#surplus.delete(store);
    return keys;
  }
}

function markKey(owner: Buffer, number: string): Buffer {
  const key = Buffer.alloc(userBytes + 8, owner);
  key.writeBigUInt64BE(BigInt(number), userBytes);
  return key;
}

function numberOf(key: Buffer): string {
  return key.readBigUInt64BE(userBytes).toString();
}
