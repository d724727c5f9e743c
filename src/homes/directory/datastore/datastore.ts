/** The data store on the kernel: the default backend. */
import type { DocumentRecord, NamespaceSummary, Scope } from '../../../datastore/model.js';
import type { DataCapabilities, DataPort, KeyRange } from '../../../datastore/port.js';
import { timeOfMs } from '../../../datastore/documents/times.js';
import { readUpTo } from '../../../datastore/documents/bounded-reads.js';
import type { Entry, RangeOptions } from '../kernel/engine.js';
import { keyAfterPrefix, keyBytesMax, prefixRange } from '../kernel/engine.js';
import { keptBytes } from '../kept-answers.js';
import { step } from '../step.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import { userKey } from '../../../identity/user-key.js';
import { invalidCursor } from '../../../core/paging.js';
import { Slices } from '../../../core/waiting/yielding.js';
import {
  checkKeyLimits,
  dataFamilies as families,
  decodeNamespace,
  documentKey,
  expiryTimer,
  isLiveRow,
  namesOf,
  namespaceKey,
  readUsage,
  summaryOf,
  valueJsonOf,
} from './rows.js';
import { DataVerbs, type DataVerbsOptions, readDocument } from './verbs.js';

export interface DirectoryDataStoreOptions extends Partial<Pick<DataVerbsOptions, 'ensureUser'>> {
  kernel: Kernel;
  /**
   * Throws for a second spelling of a known user, which would have the same rows. Called before any row of
   * the user is read.
   */
  checkUser?: (user: string) => void;
}

/** Rows read before other requests can run: a few milliseconds at most. */
const rowsPerTurn = 200;

export class DirectoryDataStore implements DataPort {
  readonly capabilities: DataCapabilities = {
    backend: 'directory',
    atomicBatches: true,
    changes: 'same-commit',
    quotas: true,
    valueBytesMax: null,
    accessFlushMs: 1_000,
    reportsAccessVisible: true,
    sharedIds: false,
    listsLag: false,
  };
  readonly verbs: DataVerbs;
  readonly #kernel: Kernel;
  readonly #checkUser: (user: string) => void;

  constructor(options: DirectoryDataStoreOptions) {
    this.#kernel = options.kernel;
    this.#checkUser = options.checkUser ?? (() => undefined);
    checkKeyLimits(options.kernel.limits);
    this.verbs = new DataVerbs({
      limits: options.kernel.limits,
      ensureUser: options.ensureUser ?? (() => undefined),
    });
    this.#kernel.handleTimer(expiryTimer, (tx, reference) => this.verbs.expire(tx, reference));
  }

  get(scope: Scope, key: string): DocumentRecord | undefined {
    const store = this.#storeOf(scope);
    const rowKey = documentKey(scope, key);
    const row = store.get(families.documents, rowKey);
    if (row === undefined || !isLiveRow(row, store.nowMs())) return undefined;
    return readDocument(store, rowKey, row, { namespace: scope.namespace, key });
  }

  /** Reads one row, without the other fields and the counts. */
  readonly getValue: DataPort['getValue'] = (scope, key) => {
    const store = this.#storeOf(scope);
    const rowKey = documentKey(scope, key);
    const row = store.get(families.documents, rowKey);
    if (row === undefined || !isLiveRow(row, store.nowMs())) return undefined;
    return { valueJson: valueJsonOf(store, rowKey, row), accessCount: 0 };
  };

  readonly getMany: DataPort['getMany'] = (scope, keys, bytesMax = Infinity) =>
    readUpTo(bytesMax, keys, (key) => this.get(scope, key));

  readonly write: DataPort['write'] = (scope, batch) =>
    step(this.#storeOf(scope), (tx) => this.verbs.write(tx, scope, batch));

  readonly modify: DataPort['modify'] = (scope, key, decide) =>
    step(this.#storeOf(scope), (tx) => this.verbs.modify(tx, scope, key, decide));

  readonly requireVersion: DataPort['requireVersion'] = (scope, key, version) =>
    step(this.#storeOf(scope), (tx) => this.verbs.requireVersion(tx, scope, key, version));

  readonly listKeys: DataPort['listKeys'] = async (scope, range) =>
    this.#list(scope, range, ({ key, value }) => summaryOf(key, value));

  readonly listDocuments: DataPort['listDocuments'] = async (scope, range) => {
    const store = this.#storeOf(scope);
    return this.#list(scope, range, ({ key, value }) => readDocument(store, key, value));
  };

  readonly listNamespaces: DataPort['listNamespaces'] = (user, after, limit) => {
    const store = this.#storeOf({ user });
    const bounds = prefixRange(userKey(user));
    const start =
      after === null
        ? bounds
        : { gt: namespaceKey({ user, namespace: after }), ...(bounds.lt !== undefined && { lt: bounds.lt }) };
    const found: NamespaceSummary[] = [];
    let agents = 0;
    // The next call reads the rest. The caller repeats until nothing is found.
    for (const { key, value } of store.range(families.namespaces, {
      ...start,
      limit: Math.min(limit, rowsPerTurn),
    })) {
      const summary = this.#describe({ user, namespace: key.toString('utf8', 32) }, value);
      found.push(summary);
      agents += summary.agents.length;
      if (agents >= rowsPerTurn) break;
    }
    return found;
  };

  readonly describeNamespaces: DataPort['describeNamespaces'] = (user, names) => {
    const store = this.#storeOf({ user });
    return names.flatMap((namespace) => {
      const scope = { user, namespace };
      const row = store.get(families.namespaces, namespaceKey(scope));
      return row === undefined ? [] : [this.#describe(scope, row)];
    });
  };

  #describe(scope: Scope, row: Buffer): NamespaceSummary {
    const agents = Array.from(
      this.#storeOf(scope).range(families.agents, {
        ...prefixRange(documentKey(scope, '')),
        limit: this.#kernel.limits.namespaceAgentsListedMax,
      }),
      ({ key }) => namesOf(key).key,
    );
    const { count, sizeBytes, updatedAtMs } = decodeNamespace(row);
    return { namespace: scope.namespace, count, sizeBytes, agents, updatedAt: timeOfMs(updatedAtMs) };
  }

  readonly clear: DataPort['clear'] = (scope, after, limit) =>
    step(this.#storeOf(scope), (tx) => this.verbs.clearStep(tx, scope, after, limit));

  readonly recordAccess: DataPort['recordAccess'] = async (reads, onVisible) => {
    for (const store of this.#kernel.stores) {
      const ofStore = reads.filter(({ scope }) => this.#storeOf(scope) === store);
      if (ofStore.length === 0) continue;
      await store.transact((tx) => {
        for (const read of ofStore) this.verbs.recordAccess(tx, read);
        tx.onDurable(() => onVisible?.(ofStore));
      });
    }
  };

  /** The position is the shard and the last row's key. */
  readonly exportPage: DataPort['exportPage'] = async (after, limit) => {
    const [, shardText = '', keyText = ''] = exportPosition.exec(after ?? '0.') ?? [];
    if (shardText === '' || keyText.length > 2 * keyBytesMax) throw invalidCursor();
    const shard = Number(shardText);
    const store = this.#kernel.stores[shard];
    if (store === undefined) return { documents: [], after: null };
    const documents: DocumentRecord[] = [];
    const bounds: RangeOptions = keyText === '' ? {} : { gt: Buffer.from(keyText, 'hex') };
    let looked = 0;
    let sizeBytes = 0;
    for (const { key, value } of store.range(families.documents, { ...bounds, limit })) {
      looked += 1;
      if (isLiveRow(value, store.nowMs())) {
        const document = readDocument(store, key, value);
        documents.push(document);
        sizeBytes += document.valueJson.length;
      }
      if (looked === limit || sizeBytes >= exportTurnBytesMax)
        return { documents, after: `${shard}.${key.toString('hex')}` };
    }
    return { documents, after: shard + 1 < this.#kernel.stores.length ? `${shard + 1}.` : null };
  };

  readonly usage: DataPort['usage'] = (user) => {
    const [store, key] = [this.#storeOf({ user }), userKey(user)];
    const documents = readUsage(store, key);
    return { ...documents, sizeBytes: documents.sizeBytes + keptBytes(store, key) };
  };

  /** One step for each shard. */
  readonly restore: DataPort['restore'] = (documents, { isCounted = false } = {}) =>
    this.#kernel.stores.flatMap((store) => {
      const ofStore = documents.filter(({ userId }) => this.#storeOf({ user: userId }) === store);
      if (ofStore.length === 0) return [];
      const restored = step(store, (tx) => {
        for (const record of ofStore) this.verbs.restore(tx, record, isCounted);
      });
      return [restored];
    });

  /** The row of a document is keyed by its owner. */
  readonly heldByOthers: DataPort['heldByOthers'] = async () => [];

  /** The kernel belongs to the caller that opened it. */
  readonly close: DataPort['close'] = async () => {
    for (const store of this.#kernel.stores) await store.flush();
  };

  #storeOf({ user }: Pick<Scope, 'user'>): Store {
    this.#checkUser(user);
    return this.#kernel.storeOf(userKey(user));
  }

  /**
   * Skips expired rows until the page is full or the end is reached, and lets other requests run in between.
   */
  async #list<Item>(
    scope: Scope,
    { prefix, after, limit }: KeyRange,
    read: (row: Entry) => Item,
  ): Promise<Item[]> {
    const store = this.#storeOf(scope);
    const first = documentKey(scope, prefix);
    const lt = keyAfterPrefix(first);
    const afterKey = after === null ? undefined : documentKey(scope, after);
    let start: RangeOptions =
      afterKey === undefined || Buffer.compare(afterKey, first) < 0 ? { gte: first } : { gt: afterKey };
    const items: Item[] = [];
    const slices = new Slices();
    for (;;) {
      let looked = 0;
      for (const entry of store.range(families.documents, {
        ...start,
        ...(lt !== undefined && { lt }),
        limit: rowsPerTurn,
      })) {
        looked += 1;
        start = { gt: entry.key };
        if (!isLiveRow(entry.value, store.nowMs())) continue;
        items.push(read(entry));
        if (items.length === limit) return items;
      }
      if (looked < rowsPerTurn) return items;
      await slices.pause();
    }
  }
}

/** Bytes of values after which a page of an export ends: it is read in one turn of the event loop. */
const exportTurnBytesMax = 1024 * 1024;
/** The number of a shard, and a key in hexadecimal. */
const exportPosition = /^(\d{1,3})\.((?:[0-9a-f]{2})*)$/;
