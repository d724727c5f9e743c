/** A handle on one namespace of one user, for one agent: the library's way to the data store. */
import type { Cancellation } from '../../core/waiting/cancellation.js';
import type { Caller } from '../../core/caller.js';
import type { Page, PageRequest } from '../../core/paging.js';
import {
  type DataDocument,
  type JsonValue,
  type KeySummary,
  type NamespaceSummary,
  defaultNamespace,
} from '../model.js';
import type { ExpectedVersion, WriteResult } from '../port.js';
import type { SetOptions } from '../requests.js';
import type { ListOptions } from '../documents/pages.js';
import type { BatchAnswer, BatchRequest, DataService, KeyResult, UpdateOptions } from '../service.js';
import type { DocumentChange, WatchOptions } from '../watch.js';

/** The write is refused unless the document has this version. */
interface VersionOption {
  ifVersion?: ExpectedVersion | undefined;
}

/**
 * @example
 * const notes = stoa.data.open(operatorCaller('alice', 'planner'), 'notes');
 * await notes.set('today', { mood: 'good' }, { ttl: 3600 });
 * const today = await notes.get('today', {});
 */
export class DataNamespace {
  readonly #service: DataService;
  readonly #caller: Caller;

  constructor(
    service: DataService,
    caller: Caller,
    readonly namespace: string = defaultNamespace,
  ) {
    this.#service = service;
    this.#caller = caller;
  }

  /** Another namespace of the same user and agent. */
  useNamespace(namespace: string): DataNamespace {
    return new DataNamespace(this.#service, this.#caller, namespace);
  }

  /** The value; a stored null is null, not the fallback. */
  async get(key: string): Promise<JsonValue | undefined>;
  async get<Fallback>(key: string, fallback: Fallback): Promise<JsonValue | Fallback>;
  async get(key: string, fallback?: unknown): Promise<unknown> {
    const value = await this.#service.get(this.#caller, this.namespace, key);
    return value === undefined ? fallback : value;
  }

  getEntry(key: string): Promise<DataDocument | undefined> {
    return this.#service.getEntry(this.#caller, this.namespace, key);
  }

  set(key: string, value: unknown, options?: SetOptions): Promise<WriteResult> {
    return this.#service.set(this.#caller, this.namespace, key, value, options);
  }

  delete(key: string, options?: VersionOption): Promise<boolean> {
    return this.#service.delete(this.#caller, this.namespace, key, options);
  }

  getMany(keys: readonly string[]): Promise<Record<string, JsonValue>> {
    return this.#service.getMany(this.#caller, this.namespace, keys);
  }

  setMany(
    items: Readonly<Record<string, unknown>>,
    options?: Omit<SetOptions, 'ifVersion'>,
  ): Promise<Record<string, KeyResult>> {
    return this.#service.setMany(this.#caller, this.namespace, items, options);
  }

  /**
   * Sets and deletes in one step, then reads; at most 1,000 keys. `ttl` and `metadata` apply to every key in
   * `set`.
   */
  batch(request: BatchRequest): Promise<BatchAnswer> {
    return this.#service.batch(this.#caller, this.namespace, request);
  }

  /** Every value by key, however many there are; `entries` gives them one by one. */
  async getAll(options?: { prefix?: string }): Promise<Record<string, JsonValue>> {
    const values: [string, JsonValue][] = [];
    for await (const { key, value } of this.entries(options)) values.push([key, value]);
    return Object.fromEntries(values);
  }

  /** Every document, page after page; `pageItems` are read at a time. */
  entries(options?: { prefix?: string; pageItems?: number }): AsyncGenerator<DataDocument> {
    return this.#service.getAll(this.#caller, this.namespace, options);
  }

  listKeys(options?: ListOptions): Promise<Page<KeySummary>> {
    return this.#service.listKeys(this.#caller, this.namespace, options);
  }

  /** The namespaces of this user. */
  listNamespaces(
    options?: PageRequest & { signal?: Cancellation | undefined },
  ): Promise<Page<NamespaceSummary>> {
    return this.#service.listNamespaces(this.#caller, options);
  }

  /** Removes every document, step by step; an aborted signal ends it after the current step. */
  clear(options?: { signal?: Cancellation | undefined }): Promise<number> {
    return this.#service.clear(this.#caller, this.namespace, options);
  }

  /** Replaces the value with the result of `change`. Tries again when another writer was faster. */
  async update<Value extends JsonValue>(
    key: string,
    change: (current: JsonValue | undefined) => Value | Promise<Value>,
    options?: UpdateOptions,
  ): Promise<Value> {
    return (await this.#service.update(this.#caller, this.namespace, key, change, options)).value;
  }

  /** Adds to a number in one step. A missing document counts as 0. */
  async increment(key: string, by = 1, options?: VersionOption): Promise<number> {
    return (await this.#service.increment(this.#caller, this.namespace, key, by, options)).value;
  }

  /** Adds items at the end of a list in one step. A missing document counts as an empty list. */
  async append(key: string, items: readonly unknown[], options?: VersionOption): Promise<JsonValue[]> {
    return (await this.#service.append(this.#caller, this.namespace, key, items, options)).value;
  }

  /** A JSON merge patch of the value: null removes a member, objects are merged. */
  async mergePatch(key: string, patch: unknown, options?: VersionOption): Promise<JsonValue> {
    return (await this.#service.mergePatch(this.#caller, this.namespace, key, patch, options)).value;
  }

  watch(options: WatchOptions): AsyncGenerator<DocumentChange> {
    return this.#service.watch(this.#caller, this.namespace, options);
  }
}
