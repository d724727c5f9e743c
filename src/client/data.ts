/** The data store through a server, with the same methods as in the library. */
import {
  type DataDocument,
  type JsonValue,
  type KeySummary,
  type NamespaceSummary,
  defaultNamespace,
} from '../datastore/model.js';
import type { AnswerOf, CallSettings, InputOf } from '../api/call.js';
import { data, mergePatchType } from '../api/datastore/operations.js';
import type { DocumentChange } from '../datastore/watch.js';
import { checkIsJson } from '../datastore/documents/json.js';
import { StoaError } from '../core/errors.js';
import { type Methods, methodsOf } from './methods.js';
import type { Transport } from './transport/transport.js';
import { ChangesClient } from './watch/changes.js';
import { documentChange } from './watch/sources.js';

export interface WriteSettings extends CallSettings {
  /** The expected current version; 0 means that the document must not exist. */
  ifVersion?: number | undefined;
  /** The fencing number of the agent's lease that the caller holds. An outdated number is refused. */
  fence?: number | undefined;
}

export interface SetSettings extends WriteSettings {
  /** Merged into the stored metadata, member by member. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Seconds until the document expires. */
  ttl?: number | null | undefined;
  /** False: searches for words do not find the document, until a write says true. */
  index?: boolean | undefined;
  /** The time when the document expires, in ISO 8601, instead of `ttl`. */
  expiresAt?: string | null | undefined;
}

export interface ListSettings extends CallSettings {
  prefix?: string | undefined;
  cursor?: string | undefined;
  limit?: number | undefined;
}

export interface WatchSettings {
  prefix?: string | undefined;
  /** A position; without it the watch begins now. */
  since?: string | undefined;
  signal: AbortSignal;
}

export interface Page<Item> {
  items: Item[];
  next_cursor: string | null;
}

export interface BatchSettings<Value> extends Omit<SetSettings, 'ifVersion'> {
  set?: Readonly<Record<string, Value>> | undefined;
  delete?: readonly string[] | undefined;
  /** Keys to read, after the writes. */
  get?: readonly string[] | undefined;
}

export interface BatchAnswer<Value> {
  set: Record<string, KeyResult>;
  /** Keys without a document are left out. */
  values: Record<string, Value>;
  /** Documents that existed and were deleted. */
  deleted: number;
}

export type KeyResult = { version: number } | { error: { code: string; detail: string } };

const batchKeysMax = 1_000;
const updateAttemptsMax = 100;

/**
 * A handle on one namespace. `Value` is the caller's type of the values; it is not validated.
 *
 * @example
 * const notes = new Stoa({ url, token }).data<{ text: string }>('notes');
 * await notes.set('today', { text: 'rain' }, { ttl: 3600 });
 * const today = await notes.get('today');
 */
export class DataClient<Value = JsonValue> {
  readonly #transport: Transport;
  readonly #calls: Methods<'data'>;

  constructor(
    transport: Transport,
    readonly namespace: string = defaultNamespace,
  ) {
    this.#transport = transport;
    this.#calls = methodsOf(transport, 'data', data);
  }

  /** Another namespace of the same user and agent. */
  useNamespace<Other = Value>(namespace: string): DataClient<Other> {
    return new DataClient<Other>(this.#transport, namespace);
  }

  /** The value, or the fallback if the document does not exist. A stored null is null. */
  async get(key: string): Promise<Value | undefined>;
  async get<Fallback>(key: string, fallback: Fallback, settings?: CallSettings): Promise<Value | Fallback>;
  async get(key: string, fallback?: unknown, settings?: CallSettings): Promise<unknown> {
    const entry = await this.getEntry(key, settings);
    return entry === undefined ? fallback : entry.value;
  }

  /** The complete document, or undefined. */
  async getEntry(key: string, settings: CallSettings = {}): Promise<DataDocument<Value> | undefined> {
    try {
      // Only the caller knows the type of the values.
      return (await this.#calls.get(this.namespace, key, settings)) as DataDocument<Value>;
    } catch (error) {
      if (error instanceof StoaError && error.code === 'not_found') return undefined;
      throw error;
    }
  }

  async set(key: string, value: Value, settings: SetSettings = {}): Promise<KeySummary> {
    checkIsJson(value, 'value');
    const { signal, ifVersion, fence, metadata, ...options } = settings;
    return this.#calls.set(
      this.namespace,
      key,
      { value, metadata: metadata && { ...metadata }, ...options },
      { signal, ifVersion, fence },
    );
  }

  /** True, or false if the document did not exist. */
  async delete(key: string, settings: WriteSettings = {}): Promise<boolean> {
    try {
      await this.#calls.delete(this.namespace, key, settings);
      return true;
    } catch (error) {
      if (error instanceof StoaError && error.code === 'not_found') return false;
      throw error;
    }
  }

  /** Values by key; keys without a document are left out. */
  async getMany(keys: readonly string[], settings: CallSettings = {}): Promise<Record<string, Value>> {
    const values: [string, Value][] = [];
    for (let start = 0, step = batchKeysMax; start < keys.length;) {
      try {
        const answer = await this.batch({ ...settings, get: keys.slice(start, start + step) });
        values.push(...Object.entries(answer.values));
        start += step;
      } catch (error) {
        if (!(error instanceof StoaError && error.code === 'too_large') || step === 1) throw error;
        // One answer has a limited number of bytes.
        step = Math.ceil(Math.min(step, keys.length - start) / 4);
      }
    }
    return Object.fromEntries(values);
  }

  /**
   * Sets and deletes in one step, then reads; at most 1,000 keys. `ttl` and `metadata` apply to every key in
   * `set`.
   */
  async batch({ signal, fence, ...request }: BatchSettings<Value>): Promise<BatchAnswer<Value>> {
    checkIsJson(request.set ?? {}, 'set');
    const { set, get, delete: gone, metadata, ...expiry } = request;
    const body = {
      set: set && { ...set },
      get: get && [...get],
      delete: gone && [...gone],
      metadata: metadata && { ...metadata },
      ...expiry,
    };
    // With an Idempotency-Key the server does the work once, also if the request is repeated.
    const settings = { signal, fence, idempotencyKey: globalThis.crypto.randomUUID() };
    // As in getEntry.
    return (await this.#calls.batch(this.namespace, body, settings)) as BatchAnswer<Value>;
  }

  /** All or nothing if the backend supports it; otherwise each key has its own result. At most 1,000 keys. */
  async setMany(
    items: Readonly<Record<string, Value>>,
    settings: Omit<SetSettings, 'ifVersion'> = {},
  ): Promise<Record<string, KeyResult>> {
    return (await this.batch({ ...settings, set: items })).set;
  }

  /** All values by key, of any number. */
  async getAll(settings: { prefix?: string } & CallSettings = {}): Promise<Record<string, Value>> {
    const values: [string, Value][] = [];
    for await (const { key, value } of this.entries(settings)) values.push([key, value]);
    return Object.fromEntries(values);
  }

  /** Every document, page after page, in code-point order of the keys; `pageItems` are fetched at a time. */
  async *entries(
    settings: { prefix?: string; pageItems?: number } & CallSettings = {},
  ): AsyncGenerator<DataDocument<Value>> {
    const { pageItems = 1_000 } = settings;
    let cursor: string | undefined;
    do {
      const { prefix, signal } = settings;
      const page: Page<unknown> = await this.#calls.list(this.namespace, {
        values: true,
        limit: pageItems,
        prefix,
        cursor,
        signal,
      });
      // With `values` the items are documents.
      yield* page.items as DataDocument<Value>[];
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  async listKeys(settings: ListSettings = {}): Promise<Page<KeySummary>> {
    const page: Page<unknown> = await this.#calls.list(this.namespace, settings);
    // Without `values` the items are summaries.
    return page as Page<KeySummary>;
  }

  /** The namespaces of this user. */
  listNamespaces(settings: Omit<ListSettings, 'prefix'> = {}): Promise<Page<NamespaceSummary>> {
    return this.#calls.listNamespaces(settings);
  }

  /** How the search treats the documents of the namespace. */
  settings(settings: CallSettings = {}): Promise<AnswerOf<'data.getSettings'>> {
    return this.#calls.getSettings(this.namespace, settings);
  }

  /**
   * Changes settings of the namespace. Those that are left out stay.
   *
   * @example
   * await stoa.data('notes').changeSettings({ embed: true });
   */
  changeSettings(
    change: Omit<InputOf<'data.changeSettings'>, 'namespace'>,
    settings: CallSettings = {},
  ): Promise<AnswerOf<'data.changeSettings'>> {
    return this.#calls.changeSettings(this.namespace, change, settings);
  }

  /** Deletes every document of the namespace, and returns their number. */
  async clear(settings: Omit<WriteSettings, 'ifVersion'> = {}): Promise<number> {
    return (await this.#calls.clear(this.namespace, settings)).deleted;
  }

  /** Replaces the value with the result of `change`. It is called again if another writer was faster. */
  async update(
    key: string,
    change: (current: Value | undefined) => Value | Promise<Value>,
    settings: Omit<SetSettings, 'ifVersion'> = {},
  ): Promise<Value> {
    const { signal, fence, metadata, ...options } = settings;
    const keepsExpiry = options.ttl === undefined && options.expiresAt === undefined;
    for (let attempt = 1; ; attempt += 1) {
      const entry = await this.getEntry(key, { signal });
      const value = await change(entry?.value);
      checkIsJson(value, 'value');
      try {
        const expiresAt = entry?.expiresAt ?? null;
        const kept = keepsExpiry && expiresAt !== null && { expiresAt };
        await this.set(key, value, {
          metadata,
          ...options,
          ...kept,
          ifVersion: entry?.version ?? 0,
          signal,
          fence,
        });
        return value;
      } catch (error) {
        if (
          !(error instanceof StoaError) ||
          error.code !== 'version_conflict' ||
          attempt >= updateAttemptsMax
        )
          throw error;
      }
    }
  }

  /** Adds to a number in one step. A missing document counts as 0. */
  async increment(key: string, by = 1, settings: WriteSettings = {}): Promise<number> {
    // The server adds only to numbers.
    return (await this.#change(key, { increment: by }, settings)) as number;
  }

  /** Appends items to a list in one step. A missing document counts as an empty list. */
  async append(key: string, items: readonly unknown[], settings: WriteSettings = {}): Promise<JsonValue[]> {
    checkIsJson(items, 'items');
    // The server appends only to lists.
    return (await this.#change(key, { append: items }, settings)) as JsonValue[];
  }

  /** Applies a JSON merge patch to the value: null removes a member, objects are merged. */
  async mergePatch(key: string, patch: unknown, settings: WriteSettings = {}): Promise<Value> {
    checkIsJson(patch, 'patch');
    return (await this.#change(key, patch, settings, mergePatchType)) as Value; // As in getEntry.
  }

  /**
   * New changes, also after broken connections, until the signal is aborted. `Stoa.watch` begins with the
   * current documents.
   */
  async *watch({ prefix, since, signal }: WatchSettings): AsyncGenerator<DocumentChange> {
    for await (const { items, position } of new ChangesClient(this.#transport).follow({
      namespace: this.namespace,
      prefix,
      since,
      signal,
    })) {
      for (const item of items) {
        const change = documentChange(item, position);
        if (change !== undefined) yield change;
      }
    }
  }

  async #change(
    key: string,
    change: unknown,
    settings: WriteSettings,
    contentType?: string,
  ): Promise<unknown> {
    return (await this.#calls.change(this.namespace, key, change, { ...settings, contentType })).value;
  }
}
