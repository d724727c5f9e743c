/** The data store: checks and authorises, then asks the port. It holds no storage logic. */
import { type Cancellation, checkWanted } from '../cancellation.js';
import { StoaError, messageOf } from '../errors.js';
import type { Caller } from '../identity/caller.js';
import type { ChangeFeed } from '../kernel/changes.js';
import type { Idempotency } from '../kernel/once.js';
import type { Limits } from '../limits.js';
import { type Page, type PageRequest, decodeTextCursor, encodeCursor, pageLimit } from '../paging.js';
import { Slices } from '../yielding.js';
import { documentDeleted, documentSet, namespaceCleared } from './changes.js';
import type {
  DataDocument,
  DocumentRecord,
  JsonValue,
  KeySummary,
  NamespaceSummary,
  Scope,
} from './model.js';
import { appended, incremented, mergePatched } from './modifications.js';
import { checkKey, checkNamespace, checkPrefix } from './names.js';
import {
  type Announce,
  type BatchResult,
  type DataStorePort,
  type ExpectedVersion,
  type MaybePromise,
  type WriteBatch,
  type WriteResult,
  succeeded,
} from './port.js';
import { type ListOptions, readDocuments, readPage } from './pages.js';
import { toDocument } from './seed-document.js';
import { compareCodePoints } from './code-point-order.js';
import { DataNamespace } from './namespace.js';
import { ReadModifyWrite, type UpdateOptions } from './read-modify-write.js';
import {
  type RequestRules,
  type SetOptions,
  checkBatchBytes,
  checkBatchKeys,
  distinctKeys,
  documentWrite,
} from './requests.js';
import { AccessTracker } from './tracking.js';
import { DataTransfer } from './transfer.js';
import { valueJson } from './value.js';
import { type DocumentChange, type WatchOptions, watchNamespace } from './watch.js';

/** Does a user's work once for an idempotency key, and answers the same to every repeat. */
type Once = <T>(user: string, idempotency: Idempotency, work: () => Promise<T>) => Promise<T>;

export interface DataServiceOptions {
  port: DataStorePort;
  limits: Limits;
  nowMs?: () => number;
  /** Appends to the change feed; null where the backend does it in its own commits. */
  announce?: Announce | null;
  /** For a backend that keeps no answers to idempotency keys; null where it does so in its own commits. */
  once?: Once | null;
  /** Where `watch` listens. */
  feed?: ChangeFeed | undefined;
  /** Shared by services over the same documents; a new one unless given. */
  tracker?: AccessTracker;
  /** Faults that no caller waits for: counted reads that could not be written yet. */
  onError?: (error: unknown, about: string) => void;
}

export interface BatchRequest {
  set?: Readonly<Record<string, unknown>> | undefined;
  get?: readonly string[] | undefined;
  delete?: readonly string[] | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
  ttl?: number | null | undefined;
  expiresAt?: string | null | undefined;
}

/** What became of one key of a batch. */
export type KeyResult = { version: number } | { error: { code: string; detail: string } };

export interface BatchAnswer {
  set: Record<string, KeyResult>;
  values: Record<string, JsonValue>;
  deleted: number;
}

export class DataService {
  readonly port: DataStorePort;
  readonly limits: Limits;
  readonly tracker: AccessTracker;
  /** Export and import of whole documents. */
  readonly transfer: DataTransfer;
  readonly #options: DataServiceOptions;
  readonly #announce: Announce | null;
  readonly #once: Once | null;
  readonly #nowMs: () => number;
  readonly #rules: RequestRules;
  readonly #changes: ReadModifyWrite;
  readonly #feed: ChangeFeed | undefined;
  readonly #onError: (error: unknown, about: string) => void;
  #sweeping: NodeJS.Timeout | undefined;
  /** The sweep that is under way. */
  #sweep: Promise<void> | undefined;
  #isClosing = false;

  constructor(options: DataServiceOptions) {
    this.#options = options;
    this.port = options.port;
    this.limits = options.limits;
    this.#announce = options.announce ?? null;
    this.#once = options.once ?? null;
    this.#nowMs = options.nowMs ?? Date.now;
    this.#rules = { limits: this.limits, nowMs: this.#nowMs };
    this.#changes = new ReadModifyWrite(this.port, this.#rules);
    this.#feed = options.feed;
    this.#onError =
      options.onError ?? ((error, about) => process.emitWarning(`${about}: ${messageOf(error)}`));
    this.tracker =
      options.tracker ??
      new AccessTracker({
        port: options.port,
        entriesMax: options.limits.trackedReadsMax,
        closingSecondsMax: options.limits.backendRequestSecondsMax,
        nowMs: this.#nowMs,
        onError: (error) => this.#onError(error, 'counting reads of the data store'),
      });
    this.transfer = new DataTransfer({
      port: this.port,
      limits: this.limits,
      tracker: this.tracker,
      announce: this.#announce,
    });
  }

  /** The same service over another port of the same documents. */
  over(port: DataStorePort): DataService {
    return new DataService({ ...this.#options, port, tracker: this.tracker });
  }

  /** The value, or undefined where there is no document. A stored null is null. */
  async get(caller: Caller, namespace: string, key: string): Promise<JsonValue | undefined> {
    const scope = this.#reads(caller, namespace);
    checkKey(key, this.limits);
    const record = await (this.port.getValue === undefined
      ? this.port.get(scope, key)
      : this.port.getValue(scope, key));
    if (record === undefined) return undefined;
    if (caller.agent !== null) this.tracker.read(scope, key, caller.agent, record.accessCount);
    return JSON.parse(record.valueJson) as JsonValue;
  }

  /** The whole document, or undefined. */
  async getEntry(caller: Caller, namespace: string, key: string): Promise<DataDocument | undefined> {
    const record = await this.getRecord(caller, namespace, key);
    return record === undefined ? undefined : toDocument(record);
  }

  /** The whole document with its value as JSON text, for doors that only pass it on. It comes at once where the backend reads at once. It may be shared: nobody changes it. */
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
    const values: [string, JsonValue][] = [];
    for (let start = 0; start < distinct.length; start += this.limits.dataBatchKeysMax) {
      for (const record of await this.port.getMany(
        scope,
        distinct.slice(start, start + this.limits.dataBatchKeysMax),
      )) {
        if (record === undefined) continue;
        this.#counted(caller, scope, record);
        values.push([record.key, JSON.parse(record.valueJson) as JsonValue]);
      }
    }
    return Object.fromEntries(values);
  }

  async set(
    caller: Caller,
    namespace: string,
    key: string,
    value: unknown,
    options: SetOptions = {},
  ): Promise<WriteResult> {
    const scope = this.#writes(caller, namespace);
    const write = documentWrite(this.#rules, caller.agent, key, value, options);
    const [result] = (await this.#write(scope, { sets: [write], deletes: [] }, null)).sets;
    return succeeded(result);
  }

  /** All or nothing where the backend can; otherwise each key has a result of its own. */
  async setMany(
    caller: Caller,
    namespace: string,
    items: Readonly<Record<string, unknown>>,
    options: Omit<SetOptions, 'ifVersion'> = {},
  ): Promise<Record<string, KeyResult>> {
    const { set } = await this.batch(caller, namespace, { ...options, set: items });
    return set;
  }

  /** True, or false where there was no document. */
  async delete(
    caller: Caller,
    namespace: string,
    key: string,
    options: { ifVersion?: ExpectedVersion | undefined } = {},
  ): Promise<boolean> {
    const scope = this.#writes(caller, namespace);
    checkKey(key, this.limits);
    const [result] = (
      await this.#write(scope, { sets: [], deletes: [{ key, ifVersion: options.ifVersion ?? null }] }, null)
    ).deletes;
    return succeeded(result);
  }

  /** Sets and deletes in one step, then reads. */
  async batch(
    caller: Caller,
    namespace: string,
    request: BatchRequest,
    idempotency: Idempotency | null = null,
  ): Promise<BatchAnswer> {
    if (idempotency === null || this.#once === null)
      return this.#batch(caller, namespace, request, idempotency);
    return this.#once(caller.user, idempotency, () => this.#batch(caller, namespace, request, null));
  }

  async #batch(
    caller: Caller,
    namespace: string,
    request: BatchRequest,
    idempotency: Idempotency | null,
  ): Promise<BatchAnswer> {
    // Also where there is nothing to do: who may not read here is told so.
    this.#reads(caller, namespace);
    const sets = Object.entries(request.set ?? {});
    const deletes = distinctKeys(this.limits, request.delete ?? []);
    const gets = distinctKeys(this.limits, request.get ?? []);
    checkBatchKeys(
      this.limits,
      sets.map(([key]) => key),
      deletes,
      gets,
    );
    const writes = sets.map(([key, value]) => documentWrite(this.#rules, caller.agent, key, value, request));
    checkBatchBytes(this.limits, writes);
    const answer: BatchAnswer = { set: {}, values: {}, deleted: 0 };
    if (writes.length + deletes.length > 0) {
      const batch = { sets: writes, deletes: deletes.map((key) => ({ key, ifVersion: null })) };
      const result = await this.#write(this.#writes(caller, namespace), batch, idempotency);
      answer.set = Object.fromEntries(
        result.sets.map((outcome, index) => [writes[index]?.key ?? '', keyResult(outcome)]),
      );
      answer.deleted = result.deletes.filter((outcome) => outcome === true).length;
      const failed = result.deletes.find((outcome) => outcome instanceof Error);
      if (failed !== undefined) throw failed;
    }
    if (gets.length > 0) answer.values = await this.getMany(caller, namespace, gets);
    return answer;
  }

  /** Keys in code-point order. It counts as no read. */
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
    const page = await readPage(scope, 'documents', options, this.limits, (range) =>
      readDocuments(
        this.port,
        Math.min(options.bytesMax ?? Infinity, this.limits.dataPageBytesMax),
        scope,
        range,
      ),
    );
    return { ...page, items: page.items.map((record) => this.#read(caller, scope, record)) };
  }

  /** Every document of a namespace, page after page, however many there are. */
  async *getAll(
    caller: Caller,
    namespace: string,
    options: { prefix?: string | undefined } = {},
  ): AsyncGenerator<DataDocument> {
    let cursor: string | undefined;
    do {
      const page = await this.listDocuments(caller, namespace, {
        ...options,
        cursor,
        limit: this.limits.pageItemsMax,
      });
      for (const record of page.items) yield toDocument(record);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** The caller's namespaces in code-point order, with what is kept about them. */
  async listNamespaces(
    caller: Caller,
    options: PageRequest & { signal?: Cancellation | undefined } = {},
  ): Promise<Page<NamespaceSummary>> {
    const limit = pageLimit(options.limit, this.limits);
    const list = JSON.stringify(['data', caller.user]);
    let after = decodeTextCursor(list, options.cursor, this.limits.namespaceBytesMax);
    const items: NamespaceSummary[] = [];
    const slices = new Slices();
    for (let agents = 0; items.length < limit && agents < this.limits.namespacePageAgentsMax;) {
      checkWanted(options.signal);
      const step = await this.#nextNamespaces(caller, after, limit - items.length, options.signal);
      for (const summary of step.found) {
        items.push({ ...summary, agents: summary.agents.slice(0, this.limits.namespaceAgentsListedMax) });
        agents += summary.agents.length;
      }
      ({ after } = step);
      if (after === null) return { items, next_cursor: null };
      await slices.pause();
    }
    return { items, next_cursor: encodeCursor(list, Buffer.from(after ?? '')) };
  }

  /** Credentials that reach a few namespaces ask for those alone, however many the user has. */
  async #nextNamespaces(
    { user, scopes }: Caller,
    after: string | null,
    limit: number,
    signal: Cancellation | undefined,
  ): Promise<{ found: NamespaceSummary[]; after: string | null }> {
    if (scopes.namespaces === null) {
      const found = await this.port.listNamespaces(user, after, limit, signal);
      return { found, after: found.at(-1)?.namespace ?? null };
    }
    const names = [...new Set(scopes.namespaces)]
      .filter((name) => after === null || compareCodePoints(name, after) > 0)
      .toSorted(compareCodePoints)
      .slice(0, limit);
    const found = names.length === 0 ? [] : await this.port.describeNamespaces(user, names, signal);
    return { found, after: names.at(-1) ?? null };
  }

  /** Removes every document of the namespace, step by step; answers how many there were. With an aborted signal it ends after the step under way. */
  async clear(
    caller: Caller,
    namespace: string,
    options: { signal?: Cancellation | undefined } = {},
  ): Promise<number> {
    const scope = this.#writes(caller, namespace);
    let deleted = 0;
    let after: string | null = null;
    do {
      checkWanted(options.signal);
      const step = await this.port.clearStep(scope, after, this.limits.clearStepMax);
      deleted += step.deleted;
      this.tracker.forgetCleared(scope, after, step.after);
      if (step.deleted > 0)
        await this.#announce?.([namespaceCleared(scope, step.deleted, after, step.after)]);
      after = step.after;
    } while (after !== null);
    return deleted;
  }

  /** Replaces the value by what `change` makes of it; tried again whenever somebody else was faster. */
  async update<Value extends JsonValue>(
    caller: Caller,
    namespace: string,
    key: string,
    change: (current: JsonValue | undefined) => Value | Promise<Value>,
    options: UpdateOptions = {},
  ): Promise<WriteResult & { value: Value }> {
    const scope = this.#writes(caller, namespace);
    checkKey(key, this.limits);
    return this.#changes.update({ scope, key, agent: caller.agent }, change, options, (batch) =>
      this.#write(scope, batch, null),
    );
  }

  /** Adds to a number; a missing document counts as 0. Its expiry and metadata stay. */
  async increment(
    caller: Caller,
    namespace: string,
    key: string,
    by = 1,
    options: { ifVersion?: ExpectedVersion | undefined } = {},
  ): Promise<WriteResult & { value: number }> {
    return this.#modify(caller, namespace, key, options.ifVersion, (current) =>
      incremented(key, current, by),
    );
  }

  /** Adds items at the end of a list; a missing document counts as an empty one. */
  async append(
    caller: Caller,
    namespace: string,
    key: string,
    items: readonly unknown[],
    options: { ifVersion?: ExpectedVersion | undefined } = {},
  ): Promise<WriteResult & { value: JsonValue[] }> {
    valueJson(items, this.limits);
    // valueJson has refused everything that is not JSON.
    const checked = items as readonly JsonValue[];
    return this.#modify(caller, namespace, key, options.ifVersion, (current) =>
      appended(key, current, checked),
    );
  }

  /** A JSON merge patch (RFC 7396) of the value. */
  async mergePatch(
    caller: Caller,
    namespace: string,
    key: string,
    patch: unknown,
    options: { ifVersion?: ExpectedVersion | undefined } = {},
  ): Promise<WriteResult & { value: JsonValue }> {
    valueJson(patch, this.limits);
    const checked = patch as JsonValue; // valueJson has refused everything that is not JSON.
    return this.#modify(caller, namespace, key, options.ifVersion, (current) =>
      mergePatched(current, checked),
    );
  }

  /** Changes in a namespace as they happen, until the signal is aborted. */
  watch(caller: Caller, namespace: string, options: WatchOptions): AsyncGenerator<DocumentChange> {
    const scope = this.#reads(caller, namespace);
    checkPrefix(options.prefix ?? '', this.limits);
    if (this.#feed === undefined)
      throw new StoaError('unsupported', 'This data store was opened without a change feed.');
    return watchNamespace(this.#feed, scope, options);
  }

  /** Resolves when the feed tells of everything that an earlier read has seen, as far as the backend can say. */
  async settleFeed(): Promise<void> {
    await this.port.settleFeed?.();
  }

  /** A handle on one namespace. */
  open(caller: Caller, namespace?: string): DataNamespace {
    return new DataNamespace(this, caller, namespace);
  }

  /** Starts sweeping what has expired, where the backend does not do so by itself. */
  start(): void {
    if (this.port.sweepExpired === undefined) return;
    this.#sweeping ??= setInterval(() => {
      // One at a time: a database that hangs must not gather them.
      this.#sweep ??= this.#sweepAll().finally(() => (this.#sweep = undefined));
    }, sweepIntervalMs);
    this.#sweeping.unref();
  }

  async #sweepAll(): Promise<void> {
    try {
      while (
        !this.#isClosing &&
        (await this.port.sweepExpired?.(this.limits.clearStepMax)) === this.limits.clearStepMax
      );
    } catch (error) {
      this.#onError(error, 'sweeping expired documents');
    }
  }

  /** Writes what has been counted; then the port may be closed. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#sweeping);
    await this.#sweep;
    await this.tracker.close();
    await this.port.close();
  }

  async #modify<Value extends JsonValue>(
    caller: Caller,
    namespace: string,
    key: string,
    ifVersion: ExpectedVersion | undefined,
    change: (current: JsonValue | undefined) => Value,
  ): Promise<WriteResult & { value: Value }> {
    const scope = this.#writes(caller, namespace);
    checkKey(key, this.limits);
    const result = await this.#changes.modify({ scope, key, agent: caller.agent }, ifVersion, change);
    this.tracker.written(scope, key);
    await this.#announce?.([documentSet(scope, key, result.version)]);
    return result;
  }

  async #write(scope: Scope, batch: WriteBatch, idempotency: Idempotency | null): Promise<BatchResult> {
    const result = await this.port.write(scope, batch, idempotency);
    for (const [index, { key }] of batch.sets.entries())
      if (!(result.sets[index] instanceof Error)) this.tracker.written(scope, key);
    for (const [index, { key }] of batch.deletes.entries())
      if (result.deletes[index] === true) this.tracker.forget(scope, key);
    if (this.#announce !== null) {
      const changes = result.sets.flatMap((outcome) =>
        outcome instanceof Error ? [] : [documentSet(scope, outcome.key, outcome.version)],
      );
      changes.push(
        ...batch.deletes.flatMap(({ key }, index) =>
          result.deletes[index] === true ? [documentDeleted(scope, key)] : [],
        ),
      );
      if (changes.length > 0) await this.#announce(changes);
    }
    return result;
  }

  /** The record as this caller sees it, and the read counted. */
  #read(caller: Caller, scope: Scope, record: DocumentRecord): DocumentRecord {
    const shown = this.tracker.shown(scope, record);
    this.#counted(caller, scope, record);
    return shown;
  }

  #counted(caller: Caller, scope: Scope, record: DocumentRecord): void {
    if (caller.agent !== null) this.tracker.read(scope, record.key, caller.agent, record.accessCount);
  }

  #reads(caller: Caller, namespace: string): Scope {
    checkNamespace(namespace, this.limits);
    if (!reaches(caller, namespace)) {
      throw new StoaError('forbidden', `These credentials do not reach the namespace "${namespace}".`, {
        details: { namespaces: caller.scopes.namespaces },
      });
    }
    return { user: caller.user, namespace };
  }

  #writes(caller: Caller, namespace: string): Scope {
    if (!caller.scopes.write) throw new StoaError('forbidden', 'These credentials may only read.');
    return this.#reads(caller, namespace);
  }
}

const sweepIntervalMs = 60_000;

function reaches(caller: Caller, namespace: string): boolean {
  return caller.scopes.namespaces === null || caller.scopes.namespaces.includes(namespace);
}

function keyResult(outcome: WriteResult | Error): KeyResult {
  if (!(outcome instanceof Error)) return { version: outcome.version };
  return {
    error: { code: outcome instanceof StoaError ? outcome.code : 'internal', detail: outcome.message },
  };
}
