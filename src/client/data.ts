/** The data store through a server: the same verbs as in the library. */
import {
  type DataDocument,
  type JsonValue,
  type KeySummary,
  type NamespaceSummary,
  defaultNamespace,
} from '../datastore/model.js';
import type { DocumentChange } from '../datastore/watch.js';
import { checkIsJson } from '../datastore/json.js';
import { StoaError } from '../errors.js';
import { encodeSegment } from '../path-segment.js';
import type { Transport } from './transport.js';
import { ChangesClient } from './changes.js';
import { documentChange } from './watch-sources.js';

export interface CallSettings {
  /** Ends the call; it rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

export interface WriteSettings extends CallSettings {
  /** Write only over this version; 0 only where there is no document yet. */
  ifVersion?: number | undefined;
}

export interface SetSettings extends WriteSettings {
  /** Merged into what is there, member by member. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Seconds until the document expires. */
  ttl?: number | null | undefined;
  /** The moment at which it expires, ISO 8601, instead of `ttl`. */
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
  /** Documents that were there and are gone. */
  deleted: number;
}

export type KeyResult = { version: number } | { error: { code: string; detail: string } };

const batchKeysMax = 1_000;
const updateAttemptsMax = 100;

/**
 * A handle on one namespace. `Value` is what the caller keeps there; nothing checks it.
 *
 * @example
 * const notes = new Stoa({ url, token }).data<{ text: string }>('notes');
 * await notes.set('today', { text: 'rain' }, { ttl: 3600 });
 * const today = await notes.get('today');
 */
export class DataClient<Value = JsonValue> {
  readonly #transport: Transport;

  constructor(
    transport: Transport,
    readonly namespace: string = defaultNamespace,
  ) {
    this.#transport = transport;
  }

  /** Another namespace of the same user and agent. */
  useNamespace<Other = Value>(namespace: string): DataClient<Other> {
    return new DataClient<Other>(this.#transport, namespace);
  }

  /** The value, or the fallback where there is no document; a stored null is null. */
  async get(key: string): Promise<Value | undefined>;
  async get<Fallback>(key: string, fallback: Fallback, settings?: CallSettings): Promise<Value | Fallback>;
  async get(key: string, fallback?: unknown, settings?: CallSettings): Promise<unknown> {
    const entry = await this.getEntry(key, settings);
    return entry === undefined ? fallback : entry.value;
  }

  /** The whole document, or undefined. */
  async getEntry(key: string, settings: CallSettings = {}): Promise<DataDocument<Value> | undefined> {
    try {
      return await this.#transport.call<DataDocument<Value>>('GET', this.#path(key), {
        signal: settings.signal,
      });
    } catch (error) {
      if (error instanceof StoaError && error.code === 'not_found') return undefined;
      throw error;
    }
  }

  async set(key: string, value: Value, settings: SetSettings = {}): Promise<KeySummary> {
    checkIsJson(value, 'value');
    const { signal, ifVersion, ...options } = settings;
    // A second unconditional write of the same value leaves the same value.
    return this.#transport.call('PUT', this.#path(key), {
      body: { value, ...options },
      headers: conditions(ifVersion),
      signal,
      repeatable: ifVersion === undefined,
    });
  }

  /** True, or false where there was no document. */
  async delete(key: string, settings: WriteSettings = {}): Promise<boolean> {
    try {
      await this.#transport.call('DELETE', this.#path(key), {
        headers: conditions(settings.ifVersion),
        signal: settings.signal,
      });
      return true;
    } catch (error) {
      if (error instanceof StoaError && error.code === 'not_found') return false;
      throw error;
    }
  }

  /** Values by key; keys without a document are left out. */
  async getMany(keys: readonly string[], settings: CallSettings = {}): Promise<Record<string, Value>> {
    const values: [string, Value][] = [];
    for (let start = 0; start < keys.length; start += batchKeysMax) {
      const answer = await this.batch({ ...settings, get: keys.slice(start, start + batchKeysMax) });
      values.push(...Object.entries(answer.values));
    }
    return Object.fromEntries(values);
  }

  /** Sets and deletes in one step, then reads; at most 1,000 keys. `ttl` and `metadata` go with every key in `set`. */
  async batch({ signal, ...request }: BatchSettings<Value>): Promise<BatchAnswer<Value>> {
    checkIsJson(request.set ?? {}, 'set');
    return this.#batch(request, { signal });
  }

  /** All or nothing where the backend can; otherwise each key has a result of its own. At most 1,000 keys. */
  async setMany(
    items: Readonly<Record<string, Value>>,
    settings: Omit<SetSettings, 'ifVersion'> = {},
  ): Promise<Record<string, KeyResult>> {
    return (await this.batch({ ...settings, set: items })).set;
  }

  /** Every value by key, however many there are. */
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
      const page: Page<DataDocument<Value>> = await this.#transport.call('GET', this.#path(), {
        query: { values: 1, limit: pageItems, prefix: settings.prefix, cursor },
        signal: settings.signal,
      });
      yield* page.items;
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
  }

  listKeys({ signal, ...query }: ListSettings = {}): Promise<Page<KeySummary>> {
    return this.#transport.call('GET', this.#path(), { query, signal });
  }

  /** The namespaces of this user. */
  listNamespaces({ signal, ...query }: Omit<ListSettings, 'prefix'> = {}): Promise<Page<NamespaceSummary>> {
    return this.#transport.call('GET', '/v1/data', { query, signal });
  }

  /** Deletes every document of the namespace; answers how many there were. */
  async clear(settings: CallSettings = {}): Promise<number> {
    return (
      await this.#transport.call<{ deleted: number }>('DELETE', this.#path(), { signal: settings.signal })
    ).deleted;
  }

  /** Replaces the value by what `change` makes of it; tried again whenever somebody else was faster. */
  async update(
    key: string,
    change: (current: Value | undefined) => Value | Promise<Value>,
    settings: Omit<SetSettings, 'ifVersion'> = {},
  ): Promise<Value> {
    const { signal, ...options } = settings;
    const keepsExpiry = options.ttl === undefined && options.expiresAt === undefined;
    for (let attempt = 1; ; attempt += 1) {
      const entry = await this.getEntry(key, { signal });
      const value = await change(entry?.value);
      checkIsJson(value, 'value');
      try {
        const expiresAt = entry?.expiresAt ?? null;
        const body = { value, ...options, ...(keepsExpiry && expiresAt !== null && { expiresAt }) };
        await this.#transport.call('PUT', this.#path(key), {
          body,
          headers: conditions(entry?.version ?? 0),
          signal,
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

  /** Adds to a number in one step; a missing one counts as 0. */
  async increment(key: string, by = 1, settings: WriteSettings = {}): Promise<number> {
    return (await this.#change<{ value: number }>(key, { increment: by }, settings)).value;
  }

  /** Adds items at the end of a list in one step; a missing one counts as empty. */
  async append(key: string, items: readonly unknown[], settings: WriteSettings = {}): Promise<JsonValue[]> {
    checkIsJson(items, 'items');
    return (await this.#change<{ value: JsonValue[] }>(key, { append: items }, settings)).value;
  }

  /** A JSON merge patch of the value: null removes a member, objects go on inside. */
  async mergePatch(key: string, patch: unknown, settings: WriteSettings = {}): Promise<Value> {
    checkIsJson(patch, 'patch');
    return (await this.#change<{ value: Value }>(key, patch, settings, 'application/merge-patch+json')).value;
  }

  /** Changes as they happen, over broken connections too, until the signal ends it. `Stoa.watch` begins with what is there. */
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

  #change<Body>(key: string, body: unknown, settings: WriteSettings, contentType?: string): Promise<Body> {
    return this.#transport.call('PATCH', this.#path(key), {
      body,
      headers: conditions(settings.ifVersion),
      signal: settings.signal,
      ...(contentType !== undefined && { contentType }),
    });
  }

  #batch(body: object, settings: CallSettings): Promise<BatchAnswer<Value>> {
    // With a key of its own the server does the work once, however often it is asked.
    return this.#transport.call('POST', this.#path(), {
      body,
      headers: { 'idempotency-key': globalThis.crypto.randomUUID() },
      signal: settings.signal,
      repeatable: true,
    });
  }

  #path(key?: string): string {
    const path = `/v1/data/${encodeSegment(this.namespace)}`;
    return key === undefined ? path : `${path}/${encodeSegment(key)}`;
  }
}

function conditions(ifVersion: number | undefined): Record<string, string> {
  if (ifVersion === undefined) return {};
  return ifVersion === 0 ? { 'if-none-match': '*' } : { 'if-match': `"${ifVersion}"` };
}
