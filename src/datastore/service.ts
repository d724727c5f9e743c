/** The data store: checks and authorises each request, then calls the port. It contains no storage code. */
import { type Cancellation, checkWanted } from '../core/waiting/cancellation.js';
import { Places } from '../core/waiting/places.js';
import { nextTurn } from '../core/waiting/yielding.js';
import { StoaError, messageOf } from '../core/errors.js';
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import { type Step, type Writer, writeOne } from '../core/write.js';
import type { Feed } from '../feed/port.js';
import type { Limits } from '../core/settings/limits.js';
import { type Page } from '../core/paging.js';
import { readableScope, writableScope } from './access.js';
import type {
  DataDocument,
  DocumentRecord,
  JsonValue,
  KeySummary,
  NamespaceSummary,
  Scope,
} from './model.js';
import { ExpirySweep } from './expiry-sweep.js';
import { DataNamespace } from './namespaces/namespace.js';
import { type NamespacePageRequest, readNamespaces } from './namespaces/namespace-pages.js';
import { checkKey, checkPrefix } from './names.js';
import { checkReadBytes } from './documents/bounded-reads.js';
import { type ListOptions, readDocuments, readPage } from './documents/pages.js';
import type { ClearStep, DataPort, Documents, MaybePromise, WriteResult } from './port.js';
import { type RequestRules, type SetOptions, distinctKeys, documentWrite } from './requests.js';
import { toDocument } from './documents/seed-document.js';
import {
  type BatchAnswer,
  type BatchRequest,
  type ChangeOptions,
  DataSteps,
  type KeyResult,
  type Repeatable,
  valuesOf,
} from './steps.js';
import { AccessTracker } from './tracking.js';
import { DataTransfer } from './transfer/transfer.js';
import { VersionRetries } from './document-store/version-retries.js';
import { type DocumentChange, type WatchOptions, watchNamespace } from './watch.js';

export type { BatchAnswer, BatchRequest, KeyResult } from './steps.js';
/** The options of `update`, which sets the version itself. */
export type UpdateOptions = Omit<SetOptions, 'ifVersion'>;

export interface DataServiceOptions extends Documents {
  limits: Limits;
  nowMs?: () => number;
  /** The feed that `watch` reads. */
  feed?: Feed | undefined;
  /** Faults that no caller waits for: counted reads that could not be written yet. */
  onError?: (error: unknown, about: string) => void;
}

export class DataService {
  readonly port: DataPort;
  readonly limits: Limits;
  readonly tracker: AccessTracker;
  /** The writes as steps, for a commit. */
  readonly steps: DataSteps;
  /** Export and import of whole documents. */
  readonly transfer: DataTransfer;
  readonly #writer: Writer;
  readonly #rules: RequestRules;
  readonly #retries: VersionRetries;
  readonly #feed: Feed | undefined;
  readonly #onError: (error: unknown, about: string) => void;
  readonly #sweep: ExpirySweep;
  readonly #background: Documents['background'];
  /** Pages and batches that are being read, each of many megabytes at most. */
  readonly #reading: Places;

  constructor(options: DataServiceOptions) {
    const { port, writer, limits, nowMs = Date.now } = options;
    this.port = port;
    this.limits = limits;
    this.#writer = writer;
    this.#rules = { limits, nowMs };
    this.#retries = new VersionRetries(limits.updateAttemptsMax);
    this.#feed = options.feed;
    this.#onError =
      options.onError ?? ((error, about) => process.emitWarning(`${about}: ${messageOf(error)}`));
    this.#background = options.background;
    this.#reading = new Places(limits.pagesAtOnceMax);
    this.#sweep = new ExpirySweep(port, limits, this.#onError);
    this.tracker = new AccessTracker({
      port,
      entriesMax: limits.trackedReadsMax,
      closingSecondsMax: limits.backendRequestSecondsMax,
      nowMs,
      onError: (error) => this.#onError(error, 'counting reads of the data store'),
    });
    this.steps = new DataSteps(port, this.#rules, this.tracker);
    this.transfer = new DataTransfer({
      port,
      writer,
      limits,
      tracker: this.tracker,
      steps: this.steps,
      reading: this.#reading,
    });
  }

  /** The value, or undefined if the document does not exist. A stored null is null. */
  async get(caller: Caller, namespace: string, key: string): Promise<JsonValue | undefined> {
    const scope = this.#reads(caller, namespace);
    checkKey(key, this.limits);
    const record = await this.port.getValue(scope, key);
    if (record === undefined) return undefined;
    if (caller.agent !== null) this.tracker.read(scope, key, caller.agent, record.accessCount);
    return JSON.parse(record.valueJson) as JsonValue;
  }

  /** The whole document, or undefined. */
  async getEntry(caller: Caller, namespace: string, key: string): Promise<DataDocument | undefined> {
    const record = await this.getRecord(caller, namespace, key);
    return record === undefined ? undefined : toDocument(record);
  }

  /**
   * The whole document with its value as JSON text, for routes that only pass it on. Returned without a
   * promise if the backend reads synchronously. It may be shared, so callers must not change it.
   */
  getRecord(caller: Caller, namespace: string, key: string): MaybePromise<DocumentRecord | undefined> {
    const scope = this.#reads(caller, namespace);
    checkKey(key, this.limits);
    const found = this.port.get(scope, key);
    const shown = (record: DocumentRecord | undefined) =>
      record === undefined ? undefined : this.#read(caller, scope, record);
    return found instanceof Promise ? found.then(shown) : shown(found);
  }

  /** The values by key; keys without a document are left out. */
  async getMany(
    caller: Caller,
    namespace: string,
    keys: readonly string[],
  ): Promise<Record<string, JsonValue>> {
    const scope = this.#reads(caller, namespace);
    const distinct = distinctKeys(this.limits, keys);
    const { dataBatchKeysMax } = this.limits;
    const records: DocumentRecord[] = [];
    for (let start = 0; start < distinct.length; start += dataBatchKeysMax) {
      const found = await this.port.getMany(scope, distinct.slice(start, start + dataBatchKeysMax));
      records.push(...found.filter((record) => record !== undefined));
    }
    this.tracker.readAll(scope, records, caller.agent);
    return valuesOf(records);
  }

  async set(
    caller: Caller,
    namespace: string,
    key: string,
    value: unknown,
    options: SetOptions & Repeatable = {},
  ): Promise<WriteResult> {
    return this.#write(caller, options, this.steps.set(caller, namespace, key, value, options));
  }

  /** All or nothing if the backend supports it. Otherwise each key has its own result. */
  async setMany(
    caller: Caller,
    namespace: string,
    items: Readonly<Record<string, unknown>>,
    options: Omit<SetOptions, 'ifVersion'> = {},
  ): Promise<Record<string, KeyResult>> {
    const { set } = await this.batch(caller, namespace, { ...options, set: items });
    return set;
  }

  /** True, or false if the document did not exist. */
  async delete(
    caller: Caller,
    namespace: string,
    key: string,
    options: ChangeOptions & Repeatable = {},
  ): Promise<boolean> {
    return this.#write(caller, options, this.steps.delete(caller, namespace, key, options));
  }

  /**
   * Sets and deletes in one step, then reads. A batch without writes is not stored under an Idempotency-Key:
   * a repeat reads again.
   */
  async batch(
    caller: Caller,
    namespace: string,
    request: BatchRequest,
    idempotency: Idempotency | null = null,
  ): Promise<BatchAnswer> {
    const step = this.steps.batch(caller, namespace, request);
    if (step !== null) return this.#write(caller, { idempotency }, step);
    const scope = this.#reads(caller, namespace);
    const keys = distinctKeys(this.limits, request.get ?? []);
    return this.#reading.run(async () => {
      // Large answers are made one in a turn of the event loop: eight of 16 MiB held it for two seconds.
      await nextTurn();
      const found = await this.port.getMany(scope, keys, this.limits.dataBatchBytesMax);
      const records = found.filter((record) => record !== undefined);
      checkReadBytes(this.limits, records);
      this.tracker.readAll(scope, records, caller.agent);
      return { set: {}, values: valuesOf(records), deleted: 0 };
    }, caller.user);
  }

  /** Keys in code-point order. Does not count as a read. */
  async listKeys(caller: Caller, namespace: string, options: ListOptions = {}): Promise<Page<KeySummary>> {
    const scope = this.#reads(caller, namespace);
    return readPage(scope, 'keys', options, this.limits, (range) => this.port.listKeys(scope, range));
  }

  /** Whole documents in code-point order of their keys. */
  async listDocuments(
    caller: Caller,
    namespace: string,
    options: ListOptions = {},
  ): Promise<Page<DocumentRecord>> {
    const scope = this.#reads(caller, namespace);
    const bytesMax = Math.min(options.bytesMax ?? Infinity, this.limits.dataPageBytesMax);
    const page = await this.#reading.run(async () => {
      // Pages that wait for a place would otherwise run one after the other in one turn.
      await nextTurn();
      checkWanted(options.signal);
      return readPage(scope, 'documents', options, this.limits, (range) =>
        readDocuments(this.port, bytesMax, scope, range),
      );
    }, caller.user);
    return { ...page, items: page.items.map((record) => this.#read(caller, scope, record)) };
  }

  /** Every document of a namespace, page after page, however many there are; `pageItems` are read at a time. */
  async *getAll(
    caller: Caller,
    namespace: string,
    {
      pageItems = this.limits.pageItemsMax,
      ...options
    }: { prefix?: string | undefined; pageItems?: number | undefined } = {},
  ): AsyncGenerator<DataDocument> {
    let cursor: string | undefined;
    do {
      const page = await this.listDocuments(caller, namespace, {
        ...options,
        cursor,
        limit: pageItems,
      });
      for (const record of page.items) yield toDocument(record);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** The caller's namespaces in code-point order, with their counts. */
  listNamespaces(caller: Caller, request: NamespacePageRequest = {}): Promise<Page<NamespaceSummary>> {
    return readNamespaces(this.port, caller, request, this.limits);
  }

  /**
   * Removes every document of the namespace, step by step; returns their number. An aborted signal ends it
   * after the current step.
   */
  async clear(
    caller: Caller,
    namespace: string,
    options: { signal?: Cancellation | undefined } = {},
  ): Promise<number> {
    let deleted = 0;
    let after: string | null = null;
    do {
      checkWanted(options.signal);
      const cleared: ClearStep = await this.#write(caller, {}, this.steps.clear(caller, namespace, after));
      deleted += cleared.deleted;
      after = cleared.after;
    } while (after !== null);
    return deleted;
  }

  /** Replaces the value with the result of `change`. Tries again when another writer was faster. */
  async update<Value extends JsonValue>(
    caller: Caller,
    namespace: string,
    key: string,
    change: (current: JsonValue | undefined) => Value | Promise<Value>,
    options: UpdateOptions = {},
  ): Promise<WriteResult & { value: Value }> {
    const scope = writableScope(caller, namespace, this.limits);
    checkKey(key, this.limits);
    return this.#retries.run(scope, key, async () => {
      const current = await this.port.get(scope, key);
      const value = await change(
        current === undefined ? undefined : (JSON.parse(current.valueJson) as JsonValue),
      );
      const keepsExpiry = options.ttl === undefined && options.expiresAt === undefined;
      const checked = documentWrite(this.#rules, caller.agent, key, value, {
        ...options,
        ifVersion: current?.version ?? 0,
      });
      const write = { ...checked, ...(keepsExpiry && { expiresAt: undefined }) };
      return { ...(await this.#write(caller, {}, this.steps.put(scope, write))), value };
    });
  }

  /** Adds to a number; a missing document counts as 0. Its expiry and metadata stay. */
  async increment(
    caller: Caller,
    namespace: string,
    key: string,
    by = 1,
    options: ChangeOptions & Repeatable = {},
  ): Promise<WriteResult & { value: number }> {
    return this.#write(caller, options, this.steps.increment(caller, namespace, key, by, options));
  }

  /** Adds items at the end of a list; a missing document counts as an empty list. */
  async append(
    caller: Caller,
    namespace: string,
    key: string,
    items: readonly unknown[],
    options: ChangeOptions & Repeatable = {},
  ): Promise<WriteResult & { value: JsonValue[] }> {
    return this.#write(caller, options, this.steps.append(caller, namespace, key, items, options));
  }

  /** A JSON merge patch (RFC 7396) of the value. */
  async mergePatch(
    caller: Caller,
    namespace: string,
    key: string,
    patch: unknown,
    options: ChangeOptions & Repeatable = {},
  ): Promise<WriteResult & { value: JsonValue }> {
    return this.#write(caller, options, this.steps.mergePatch(caller, namespace, key, patch, options));
  }

  /** Changes in a namespace as they happen, until the signal is aborted. */
  watch(caller: Caller, namespace: string, options: WatchOptions): AsyncGenerator<DocumentChange> {
    const scope = this.#reads(caller, namespace);
    checkPrefix(options.prefix ?? '', this.limits);
    if (this.#feed === undefined)
      throw new StoaError('unsupported', 'This data store was opened without a change feed.');
    return watchNamespace(this.#feed, scope, options);
  }

  /** A handle on one namespace. */
  open(caller: Caller, namespace?: string): DataNamespace {
    return new DataNamespace(this, caller, namespace);
  }

  /** Starts removing expired documents, if the database does not do it. */
  start(): void {
    this.#sweep.start();
    this.#background?.start();
  }

  /** Writes the counted reads. Then the port may be closed. */
  async close(): Promise<void> {
    await this.#sweep.close();
    await this.#background?.close();
    await this.tracker.close();
    await this.port.close();
  }

  #write<Result>(caller: Caller, { idempotency }: Repeatable, step: Step<Result>): Promise<Result> {
    return writeOne(this.#writer, { caller, idempotency }, step);
  }

  /** The record as this caller sees it. Counts the read. */
  #read(caller: Caller, scope: Scope, record: DocumentRecord): DocumentRecord {
    const shown = this.tracker.shown(scope, record);
    this.tracker.readAll(scope, [record], caller.agent);
    return shown;
  }

  #reads(caller: Caller, namespace: string): Scope {
    return readableScope(caller, namespace, this.limits);
  }
}
