/** The data store: checks and authorises, then asks the port. It holds no storage logic. */
import { StoaError } from '../errors.js';
import type { Caller } from '../identity/caller.js';
import type { Idempotency } from '../kernel/once.js';
import type { Limits } from '../limits.js';
import { type Page, type PageRequest, decodeCursor, encodeCursor, pageLimit } from '../paging.js';
import { documentDeleted, documentSet, namespaceCleared } from './changes.js';
import { KeyQueue } from './key-queue.js';
import { isLive } from './merge-document.js';
import type { DataDocument, DocumentRecord, JsonObject, JsonValue, KeySummary, NamespaceSummary, Scope } from './model.js';
import { appended, incremented, mergePatched } from './modifications.js';
import { checkAgent, checkKey, checkNamespace, checkPrefix } from './names.js';
import type { Announce, BatchResult, DataStorePort, Decide, DocumentWrite, ExpectedVersion, WriteBatch, WriteResult } from './port.js';
import { toDocument } from './seed-document.js';
import { expiryOfMs, msOf } from './times.js';
import { AccessTracker } from './tracking.js';
import { checkMetadata, valueJson } from './value.js';

export interface DataServiceOptions {
  port: DataStorePort;
  limits: Limits;
  nowMs?: () => number;
  /** Appends to the change feed; null where the backend does it in its own commits. */
  announce?: Announce | null;
  /** Faults that no caller waits for: counted reads that could not be written yet. */
  onError?: (error: unknown, about: string) => void;
}

export interface SetOptions {
  /** Merged into what is there, member by member; left away, it stays as it is. */
  metadata?: JsonObject | undefined;
  /** Write only over this version; 0 only where there is no document yet. */
  ifVersion?: ExpectedVersion | undefined;
  /** Seconds until the document expires. Without `ttl` and `expiresAt` a set document never does. */
  ttl?: number | null | undefined;
  /** The moment at which it expires, ISO 8601. */
  expiresAt?: string | null | undefined;
}

export interface ListOptions extends PageRequest {
  prefix?: string | undefined;
}

export interface BatchRequest {
  set?: Readonly<Record<string, unknown>> | undefined;
  get?: readonly string[] | undefined;
  delete?: readonly string[] | undefined;
  metadata?: JsonObject | undefined;
  ttl?: number | null | undefined;
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
  readonly #announce: Announce | null;
  readonly #nowMs: () => number;
  readonly #queue = new KeyQueue();

  constructor(options: DataServiceOptions) {
    this.port = options.port;
    this.limits = options.limits;
    this.#announce = options.announce ?? null;
    this.#nowMs = options.nowMs ?? Date.now;
    const onError = options.onError ?? ((error, about) => process.emitWarning(`${about}: ${String(error)}`));
    this.tracker = new AccessTracker({
      port: options.port,
      entriesMax: options.limits.trackedReadsMax,
      nowMs: this.#nowMs,
      onError: (error) => onError(error, 'counting reads of the data store'),
    });
  }

  /** The value, or undefined where there is no document. A stored null is null. */
  async get(caller: Caller, namespace: string, key: string): Promise<JsonValue | undefined> {
    const scope = this.#reads(caller, namespace);
    checkKey(key, this.limits);
    const record = await (this.port.getValue === undefined ? this.port.get(scope, key) : this.port.getValue(scope, key));
    if (record === undefined) return undefined;
    if (caller.agent !== null) this.tracker.read(scope, key, caller.agent, record.accessCount);
    return JSON.parse(record.valueJson) as JsonValue;
  }

  /** The whole document, or undefined. */
  async getEntry(caller: Caller, namespace: string, key: string): Promise<DataDocument | undefined> {
    const record = await this.getRecord(caller, namespace, key);
    return record === undefined ? undefined : toDocument(record);
  }

  /** The whole document with its value as JSON text, for doors that only pass it on. */
  async getRecord(caller: Caller, namespace: string, key: string): Promise<DocumentRecord | undefined> {
    const scope = this.#reads(caller, namespace);
    checkKey(key, this.limits);
    const record = await this.port.get(scope, key);
    return record === undefined ? undefined : this.#read(caller, scope, record);
  }

  /** The values by key; keys without a document are left out. */
  async getMany(caller: Caller, namespace: string, keys: readonly string[]): Promise<Record<string, JsonValue>> {
    const scope = this.#reads(caller, namespace);
    const distinct = this.#distinct(keys);
    const values: [string, JsonValue][] = [];
    for (let start = 0; start < distinct.length; start += this.limits.dataBatchKeysMax) {
      for (const record of await this.port.getMany(scope, distinct.slice(start, start + this.limits.dataBatchKeysMax))) {
        if (record === undefined) continue;
        this.#counted(caller, scope, record);
        values.push([record.key, JSON.parse(record.valueJson) as JsonValue]);
      }
    }
    return Object.fromEntries(values);
  }

  async set(caller: Caller, namespace: string, key: string, value: unknown, options: SetOptions = {}): Promise<WriteResult> {
    const scope = this.#writes(caller, namespace);
    const write = this.#documentWrite(caller, key, value, options);
    const [result] = (await this.#write(scope, { sets: [write], deletes: [] }, null)).sets;
    return succeeded(result);
  }

  /** All or nothing where the backend can; otherwise each key has a result of its own. */
  async setMany(caller: Caller, namespace: string, items: Readonly<Record<string, unknown>>, options: Omit<SetOptions, 'ifVersion'> = {}): Promise<Record<string, KeyResult>> {
    const { set } = await this.batch(caller, namespace, { set: items, metadata: options.metadata, ttl: options.ttl });
    return set;
  }

  /** True, or false where there was no document. */
  async delete(caller: Caller, namespace: string, key: string, options: { ifVersion?: ExpectedVersion | undefined } = {}): Promise<boolean> {
    const scope = this.#writes(caller, namespace);
    checkKey(key, this.limits);
    const [result] = (await this.#write(scope, { sets: [], deletes: [{ key, ifVersion: options.ifVersion ?? null }] }, null)).deletes;
    return succeeded(result);
  }

  /** Sets and deletes in one step, then reads. */
  async batch(caller: Caller, namespace: string, request: BatchRequest, idempotency: Idempotency | null = null): Promise<BatchAnswer> {
    const sets = Object.entries(request.set ?? {});
    const deletes = this.#distinct(request.delete ?? []);
    const gets = this.#distinct(request.get ?? []);
    this.#checkBatchKeys(sets.map(([key]) => key), deletes, gets);
    const writes = sets.map(([key, value]) => this.#documentWrite(caller, key, value, request));
    this.#checkBatchBytes(writes);
    const answer: BatchAnswer = { set: {}, values: {}, deleted: 0 };
    if (writes.length + deletes.length > 0) {
      const batch = { sets: writes, deletes: deletes.map((key) => ({ key, ifVersion: null })) };
      const result = await this.#write(this.#writes(caller, namespace), batch, idempotency);
      answer.set = Object.fromEntries(result.sets.map((outcome, index) => [writes[index]?.key ?? '', keyResult(outcome)]));
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
    return this.#page(scope, 'keys', options, (range) => this.port.listKeys(scope, range));
  }

  /** Whole documents in code-point order of their keys. */
  async listDocuments(caller: Caller, namespace: string, options: ListOptions = {}): Promise<Page<DocumentRecord>> {
    const scope = this.#reads(caller, namespace);
    const page = await this.#page(scope, 'documents', options, (range) => this.port.listDocuments(scope, range));
    return { ...page, items: page.items.map((record) => this.#read(caller, scope, record)) };
  }

  /** Every document of a namespace, page after page, however many there are. */
  async *getAll(caller: Caller, namespace: string, options: { prefix?: string | undefined } = {}): AsyncGenerator<DataDocument> {
    let cursor: string | undefined;
    do {
      const page = await this.listDocuments(caller, namespace, { ...options, cursor, limit: this.limits.pageItemsMax });
      for (const record of page.items) yield toDocument(record);
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  /** The caller's namespaces in code-point order, with what is kept about them. */
  async listNamespaces(caller: Caller, options: PageRequest = {}): Promise<Page<NamespaceSummary>> {
    const limit = pageLimit(options.limit, this.limits);
    const list = JSON.stringify(['data', caller.user]);
    let after = decodeCursor(list, options.cursor)?.toString() ?? null;
    const items: NamespaceSummary[] = [];
    for (;;) {
      const found = await this.port.listNamespaces(caller.user, after, limit - items.length);
      after = found.at(-1)?.namespace ?? null;
      items.push(...found.filter(({ namespace }) => reaches(caller, namespace)));
      if (after === null) return { items, next_cursor: null };
      if (items.length >= limit) return { items, next_cursor: encodeCursor(list, Buffer.from(after)) };
    }
  }

  /** Removes every document of the namespace, step by step; answers how many there were. */
  async clear(caller: Caller, namespace: string): Promise<number> {
    const scope = this.#writes(caller, namespace);
    let deleted = 0;
    let after: string | null = null;
    do {
      const step = await this.port.clearStep(scope, after, this.limits.clearStepMax);
      deleted += step.deleted;
      after = step.after;
      if (step.deleted > 0) await this.#announce?.([namespaceCleared(scope, step.deleted)]);
    } while (after !== null);
    this.tracker.forgetNamespace(scope);
    return deleted;
  }

  /** Replaces the value by what `change` makes of it; tried again whenever somebody else was faster. */
  async update<Value extends JsonValue>(
    caller: Caller,
    namespace: string,
    key: string,
    change: (current: JsonValue | undefined) => Value | Promise<Value>,
    options: Omit<SetOptions, 'ifVersion'> = {},
  ): Promise<WriteResult & { value: Value }> {
    const scope = this.#writes(caller, namespace);
    checkKey(key, this.limits);
    return this.#retried(scope, key, async () => {
      const current = await this.port.get(scope, key);
      const value = await change(current === undefined ? undefined : (JSON.parse(current.valueJson) as JsonValue));
      const keepsExpiry = options.ttl === undefined && options.expiresAt === undefined;
      const write = { ...this.#documentWrite(caller, key, value, { ...options, ifVersion: current?.version ?? 0 }), ...(keepsExpiry && { expiresAt: undefined }) };
      const [result] = (await this.#write(scope, { sets: [write], deletes: [] }, null)).sets;
      return { ...succeeded(result), value };
    });
  }

  /** Adds to a number; a missing document counts as 0. Its expiry and metadata stay. */
  async increment(caller: Caller, namespace: string, key: string, by = 1, options: { ifVersion?: ExpectedVersion | undefined } = {}): Promise<WriteResult & { value: number }> {
    return this.#modify(caller, namespace, key, options.ifVersion, (current) => incremented(key, current, by));
  }

  /** Adds items at the end of a list; a missing document counts as an empty one. */
  async append(caller: Caller, namespace: string, key: string, items: readonly unknown[], options: { ifVersion?: ExpectedVersion | undefined } = {}): Promise<WriteResult & { value: JsonValue[] }> {
    valueJson(items, this.limits);
    // valueJson has refused everything that is not JSON.
    const checked = items as readonly JsonValue[];
    return this.#modify(caller, namespace, key, options.ifVersion, (current) => appended(key, current, checked));
  }

  /** A JSON merge patch (RFC 7396) of the value. */
  async mergePatch(caller: Caller, namespace: string, key: string, patch: unknown, options: { ifVersion?: ExpectedVersion | undefined } = {}): Promise<WriteResult & { value: JsonValue }> {
    valueJson(patch, this.limits);
    const checked = patch as JsonValue; // valueJson has refused everything that is not JSON.
    return this.#modify(caller, namespace, key, options.ifVersion, (current) => mergePatched(current, checked));
  }

  /** Writes what has been counted; then the port may be closed. */
  async close(): Promise<void> {
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
    let value: Value | undefined;
    const decide: Decide = (stored) => {
      const current = stored !== undefined && isLive(stored, this.#nowMs()) ? stored : undefined;
      value = change(current === undefined ? undefined : (JSON.parse(current.valueJson) as JsonValue));
      return { ...this.#documentWrite(caller, key, value, { ifVersion }), expiresAt: undefined };
    };
    const result = this.port.modify === undefined ? await this.#modifyByVersion(scope, key, decide) : await this.port.modify(scope, key, decide);
    this.tracker.written(scope, key);
    await this.#announce?.([documentSet(scope, key, result.version)]);
    // The write succeeded, so decide has run and left its value.
    return { ...result, value: value as Value };
  }

  #modifyByVersion(scope: Scope, key: string, decide: Decide): Promise<WriteResult> {
    return this.#retried(scope, key, async () => {
      const current = await this.port.get(scope, key);
      const write = decide(current);
      const seen = current?.version ?? 0;
      // A version that the caller asked for and that is not the current one fails for good; otherwise the one just seen must hold.
      const ifVersion = write.ifVersion === null || write.ifVersion === seen || (write.ifVersion === 'any' && seen > 0) ? seen : write.ifVersion;
      const [result] = (await this.port.write(scope, { sets: [{ ...write, ifVersion }], deletes: [] }, null)).sets;
      if (result instanceof StoaError && result.code === 'version_conflict' && ifVersion !== seen) throw new FinalConflict(result);
      return succeeded(result);
    });
  }

  /** Writers of this process wait for each other; against other processes the version decides, and the loser tries again. */
  #retried<T>(scope: Scope, key: string, attempt: () => Promise<T>): Promise<T> {
    return this.#queue.run(JSON.stringify([scope.user, scope.namespace, key]), async () => {
      for (let attempts = 1; ; attempts += 1) {
        try {
          return await attempt();
        } catch (error) {
          if (error instanceof FinalConflict) throw error.conflict;
          if (!(error instanceof StoaError) || error.code !== 'version_conflict' || attempts >= this.limits.updateAttemptsMax) throw error;
          await new Promise((resolve) => setTimeout(resolve, Math.random() * Math.min(attempts, 20)));
        }
      }
    });
  }

  async #write(scope: Scope, batch: WriteBatch, idempotency: Idempotency | null): Promise<BatchResult> {
    const result = await this.port.write(scope, batch, idempotency);
    for (const { key } of batch.sets) this.tracker.written(scope, key);
    for (const { key } of batch.deletes) this.tracker.forget(scope, key);
    if (this.#announce !== null) {
      const changes = result.sets.flatMap((outcome) => (outcome instanceof Error ? [] : [documentSet(scope, outcome.key, outcome.version)]));
      changes.push(...batch.deletes.flatMap(({ key }, index) => (result.deletes[index] === true ? [documentDeleted(scope, key)] : [])));
      if (changes.length > 0) await this.#announce(changes);
    }
    return result;
  }

  #documentWrite(caller: Caller, key: string, value: unknown, options: SetOptions): DocumentWrite {
    checkKey(key, this.limits);
    if (caller.agent !== null) checkAgent(caller.agent, this.limits);
    const { ifVersion = null } = options;
    if (typeof ifVersion === 'number' && (!Number.isSafeInteger(ifVersion) || ifVersion < 0)) {
      throw new StoaError('invalid_request', 'A version is a whole number from 0 on.', { details: { field: 'ifVersion' } });
    }
    return {
      key,
      valueJson: valueJson(value, this.limits),
      metadata: options.metadata === undefined ? null : checkMetadata(options.metadata, this.limits),
      agent: caller.agent,
      ifVersion,
      expiresAt: this.#expiry(options),
    };
  }

  #expiry({ ttl, expiresAt }: SetOptions): string | null {
    if (typeof ttl === 'number' && typeof expiresAt === 'string') {
      throw new StoaError('invalid_request', 'Give ttl or expiresAt, not both.', { details: { field: 'ttl' } });
    }
    const atMs = typeof ttl === 'number' ? this.#nowMs() + ttl * 1000 : typeof expiresAt === 'string' ? expiryMs(expiresAt) : null;
    if (atMs === null) return null;
    if (!Number.isFinite(atMs) || atMs <= this.#nowMs() || atMs > latestExpiryMs) {
      throw new StoaError('invalid_request', 'A document expires in the future, before the year 10000.', { details: { field: typeof ttl === 'number' ? 'ttl' : 'expiresAt' } });
    }
    return expiryOfMs(atMs);
  }

  async #page<Item extends { key: string }>(
    scope: Scope,
    kind: string,
    options: ListOptions,
    read: (range: { prefix: string; after: string | null; limit: number }) => Item[] | Promise<Item[]>,
  ): Promise<Page<Item>> {
    const prefix = options.prefix ?? '';
    checkPrefix(prefix, this.limits);
    const limit = pageLimit(options.limit, this.limits);
    const list = JSON.stringify(['data', kind, scope.user, scope.namespace, prefix]);
    const after = decodeCursor(list, options.cursor)?.toString() ?? null;
    const items = await read({ prefix, after, limit });
    const last = items.length < limit ? undefined : items.at(-1);
    return { items, next_cursor: last === undefined ? null : encodeCursor(list, Buffer.from(last.key)) };
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
      throw new StoaError('forbidden', `These credentials do not reach the namespace "${namespace}".`, { details: { namespaces: caller.scopes.namespaces } });
    }
    return { user: caller.user, namespace };
  }

  #writes(caller: Caller, namespace: string): Scope {
    if (!caller.scopes.write) throw new StoaError('forbidden', 'These credentials may only read.');
    return this.#reads(caller, namespace);
  }

  #distinct(keys: readonly string[]): string[] {
    for (const key of keys) checkKey(key, this.limits);
    return [...new Set(keys)];
  }

  #checkBatchKeys(sets: readonly string[], deletes: readonly string[], gets: readonly string[]): void {
    const { dataBatchKeysMax } = this.limits;
    if (sets.length + deletes.length + gets.length > dataBatchKeysMax) {
      throw new StoaError('too_large', `A batch has at most ${dataBatchKeysMax} keys.`, { fix: 'Split it.', details: { dataBatchKeysMax } });
    }
    const both = sets.find((key) => deletes.includes(key));
    if (both !== undefined) throw new StoaError('invalid_request', `Key "${both}" is both set and deleted.`, { details: { field: 'delete' } });
  }

  #checkBatchBytes(writes: readonly DocumentWrite[]): void {
    const { dataBatchBytesMax } = this.limits;
    const sizeBytes = writes.reduce((sum, write) => sum + Buffer.byteLength(write.valueJson), 0);
    if (sizeBytes > dataBatchBytesMax) {
      throw new StoaError('too_large', `The values of a batch have at most ${dataBatchBytesMax} bytes.`, { fix: 'Split it.', details: { sizeBytes, dataBatchBytesMax } });
    }
  }
}

/** The caller asked for a version that is not the current one: trying again would not help. */
class FinalConflict extends Error {
  constructor(readonly conflict: StoaError) {
    super(conflict.message);
  }
}

/** The last millisecond that ISO 8601 writes with four digits for the year. */
const latestExpiryMs = Date.UTC(9999, 11, 31, 23, 59, 59, 999);

function expiryMs(text: string): number {
  try {
    return msOf(text);
  } catch (error) {
    throw new StoaError('invalid_request', `expiresAt: "${text}" is not an ISO 8601 time.`, { cause: error, details: { field: 'expiresAt' } });
  }
}

function reaches(caller: Caller, namespace: string): boolean {
  return caller.scopes.namespaces === null || caller.scopes.namespaces.includes(namespace);
}

function succeeded<T>(outcome: T | Error | undefined): T {
  if (outcome === undefined) throw new StoaError('internal', 'The backend answered fewer results than it was asked for.');
  if (outcome instanceof Error) throw outcome;
  return outcome;
}

function keyResult(outcome: WriteResult | Error): KeyResult {
  if (!(outcome instanceof Error)) return { version: outcome.version };
  return { error: { code: outcome instanceof StoaError ? outcome.code : 'internal', detail: outcome.message } };
}
