/** Records of one family: read in pages over all shards, and written in one transaction for each shard. */
import { userKey } from '../../../identity/user-key.js';
import type { Entry } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import { walk } from '../kernel/walk.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { type Verdict, isSame, outcomeOf, verdictOf } from '../../../transfer/import/compare-records.js';
import { ofAnotherUser } from '../../../transfer/import/conflicts.js';
import type { Conflict, OnConflict, Outcome, TransferRecord } from '../../../transfer/model.js';
import type { Coming, ExportScope, RecordPage, RecordStore } from '../../../transfer/port.js';

/** How one kind of record is stored in its family. */
export interface FamilyKind<Kind extends TransferRecord> {
  family: string;
  /** Only keys that begin with this byte. */
  firstByte?: number;
  /** The record of an entry; undefined for an entry that is not exported. */
  read(reader: Reader, entry: Entry, scope: ExportScope): Kind | undefined;
  /** The user whose shard stores it; null is shard 00. */
  userOf(record: Kind): string | null;
  /** What is stored under the record's id, without secrets. */
  stored(reader: Reader, record: Kind): Kind | undefined;
  /** A conflict other than a record with the same id. `coming` is undefined right before the write. */
  obstacle?(reader: Reader, record: Kind, coming: Coming | undefined): Conflict | null;
  /** The part that two records must have in common to be the same record. */
  essence?(record: Kind): unknown;
  /** Whether a new record counts in the quota of its user; every record does where this is missing. */
  isCounted?(record: Kind): boolean;
  /** `root` is the transaction of shard 00. */
  put(tx: Transaction, record: Kind, root: Transaction): void;
  /** Ids by which it is looked up without a user. */
  directoryIds?(record: Kind): readonly string[];
}

export class FamilyRecords<Kind extends TransferRecord> implements RecordStore<Kind> {
  readonly #kernel: Kernel;
  readonly #kind: FamilyKind<Kind>;

  constructor(kernel: Kernel, kind: FamilyKind<Kind>) {
    this.#kernel = kernel;
    this.#kind = kind;
  }

  async page(scope: ExportScope, after: string | null, limit: number): Promise<RecordPage<Kind>> {
    const { user } = scope;
    const [shard, key] = after === null ? [0, ''] : splitPosition(after);
    const store = this.#kernel.stores[shard];
    if (store === undefined) return { records: [], after: null };
    const { firstByte } = this.#kind;
    const start =
      key !== ''
        ? { gt: Buffer.from(key, 'hex') }
        : firstByte === undefined
          ? {}
          : { gte: Buffer.of(firstByte) };
    const end = firstByte === undefined ? {} : { lt: Buffer.of(firstByte + 1) };
    const records: Kind[] = [];
    let last = '';
    let seen = 0;
    await walk(store, this.#kind.family, { ...start, ...end }, (entry) => {
      seen += 1;
      last = entry.key.toString('hex');
      const record = this.#kind.read(store, entry, scope);
      if (record !== undefined && (user === null || this.#kind.userOf(record) === user)) records.push(record);
      return seen < limit;
    });
    if (seen === limit) return { records, after: `${shard}:${last}` };
    return { records, after: shard + 1 < this.#kernel.stores.length ? `${shard + 1}:` : null };
  }

  isCounted(record: Kind): boolean {
    return this.#kind.isCounted?.(record) !== false;
  }

  async judge(record: Kind, coming: Coming): Promise<Verdict> {
    return this.#judge(this.#storeOf(record), this.#kernel.root, record, coming);
  }

  async write(records: readonly Kind[], onConflict: OnConflict): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const byStore = new Map<Store, { record: Kind; index: number }[]>();
    for (const [index, record] of records.entries()) {
      const store = this.#storeOf(record);
      byStore.set(store, [...(byStore.get(store) ?? []), { record, index }]);
    }
    for (const [store, group] of byStore) {
      await this.#kernel.transactBoth(store, (tx, root) => {
        for (const { record, index } of group) outcomes[index] = this.#put(tx, root, record, onConflict);
      });
    }
    return outcomes;
  }

  #put(tx: Transaction, root: Transaction, record: Kind, onConflict: OnConflict): Outcome {
    const outcome = outcomeOf(this.#judge(tx, root, record, undefined), onConflict);
    if (outcome !== 'written' && outcome !== 'replaced') return outcome;
    this.#kind.put(tx, record, root);
    const user = this.#kind.userOf(record);
    if (user !== null)
      for (const id of this.#kind.directoryIds?.(record) ?? []) this.#kernel.enterIn(root, id, userKey(user));
    return outcome;
  }

  #judge(reader: Reader, root: Reader, record: Kind, coming: Coming | undefined): Verdict {
    const taken = this.#idOfAnother(root, record);
    if (taken !== undefined) return ofAnotherUser(taken);
    const stored = this.#kind.stored(reader, record);
    if (stored !== undefined && isSame(stored, record, this.#kind.essence)) return 'same';
    return this.#kind.obstacle?.(reader, record, coming) ?? verdictOf(record, stored);
  }

  /** An id of the record that belongs to another user, according to shard 00. */
  #idOfAnother(root: Reader, record: Kind): string | undefined {
    const user = this.#kind.userOf(record);
    if (user === null) return undefined;
    const owner = userKey(user);
    const ids = this.#kind.directoryIds?.(record) ?? [];
    return ids.find((id) => this.#kernel.ownerIn(root, id)?.equals(owner) === false);
  }

  #storeOf(record: Kind): Store {
    const user = this.#kind.userOf(record);
    return user === null ? this.#kernel.root : this.#kernel.storeOf(userKey(user));
  }
}

function splitPosition(after: string): [shard: number, key: string] {
  const [shard = '0', key = ''] = after.split(':');
  return [Number(shard), key];
}
