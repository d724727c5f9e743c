/** LangGraph's long-term memory in the data store: every item is a document of one namespace. */
import {
  BaseStore,
  type GetOperation,
  type Item,
  type ListNamespacesOperation,
  type MatchCondition,
  type Operation,
  type OperationResults,
  type PutOperation,
  type SearchItem,
  type SearchOperation,
} from '@langchain/langgraph-checkpoint';
import type { DataDocument } from '../client/index.js';
import { StoaError } from '../core/errors.js';
import { filterOf } from '../find/filter.js';
import type { Documents, StoaCalls } from './in-process.js';
import { itemKey, parseItemKey, pathPrefix } from './keys.js';
import { requireWritten } from './written.js';

export interface StoaStoreOptions {
  /** The client of a server, or `inProcess(stoa, caller)`. */
  client: StoaCalls;
  /** The namespace of the data store that holds the items. */
  namespace?: string | undefined;
  /**
   * Seconds after its last put when an item expires, if the put sets no time. By default items do not expire.
   */
  ttlSeconds?: number | undefined;
  /** With it, `search` with a query is by meaning. The embedder of the server makes the vectors. */
  index?: StoreIndex | undefined;
  /** Whether `get` and `search` restart the time of an item after half of it has passed. Off by default. */
  refreshOnRead?: boolean | undefined;
}

/** LangGraph's index of a store. */
export interface StoreIndex {
  /** The model that the embedder of the server must have; left out for any. */
  embed?: string | undefined;
  /** The dimensions that its vectors must have; left out for any. */
  dims?: number | undefined;
  /** The members of values that are embedded, as `text` or `message.body`; `$` and nothing mean all text. */
  fields?: readonly string[] | undefined;
  /** How `search` with a query finds items; `vector` by default. */
  mode?: 'vector' | 'hybrid' | undefined;
}

export interface PutSettings {
  /** Seconds until the item expires; null for never. */
  ttlSeconds?: number | null | undefined;
}

/** A put in a batch, optionally with its own time to live. */
export type StoaPutOperation = PutOperation & PutSettings;

const pageItemsMax = 1_000;

type Value = PutOperation['value'] & object;

/**
 * @example
 * const store = new StoaStore({ client: new Stoa({ url, token }) });
 * await store.put(['users', 'ada'], 'likes', { food: 'figs' });
 * const found = await store.search(['users'], { filter: { food: 'figs' } });
 */
export class StoaStore extends BaseStore {
  readonly #client: StoaCalls;
  readonly #data: Documents<Value>;
  readonly #ttlSeconds: number | null;
  readonly #refreshOnRead: boolean;
  readonly #index: StoreIndex | null;
  /** Resolves when the namespace has the settings of the index. */
  #indexing: Promise<void> | undefined;

  constructor({
    client,
    namespace = 'langgraph',
    ttlSeconds,
    refreshOnRead = false,
    index,
  }: StoaStoreOptions) {
    super();
    this.#index = index === undefined ? null : checkedIndex(index);
    this.#client = client;
    this.#data = client.data<Value>(namespace);
    this.#ttlSeconds = ttlSeconds ?? null;
    this.#refreshOnRead = refreshOnRead;
  }

  /**
   * Reads see the state before the batch. Its writes follow in one request, all or none. The last write of an
   * item wins.
   */
  override async batch<Op extends Operation[]>(operations: Op): Promise<OperationResults<Op>> {
    if (this.#index !== null) await this.#prepareIndex(this.#index);
    const results = await Promise.all(operations.map((operation) => this.#read(operation)));
    await this.#write(operations.filter((operation) => 'value' in operation));
    // Each result is made for the operation at its place, which the compiler cannot follow through map.
    return results as OperationResults<Op>;
  }

  override async put(
    namespace: string[],
    key: string,
    value: Value,
    index?: false | string[],
    settings: PutSettings = {},
  ): Promise<void> {
    // The base class checks the namespace and calls batch; only a put with its own time to live needs more.
    if (settings.ttlSeconds === undefined) return super.put(namespace, key, value, index);
    const put = super.put.bind({
      batch: ([operation]: [PutOperation]) => this.batch([{ ...operation, ...settings }]),
    });
    await put(namespace, key, value, index);
  }

  async #read(operation: Operation): Promise<unknown> {
    if ('value' in operation) return undefined;
    if ('namespacePrefix' in operation) return this.#search(operation);
    if ('key' in operation) return this.#get(operation);
    return this.#listNamespaces(operation);
  }

  /** Asks the server for vectors once. A failure is tried again by the next call. */
  #prepareIndex({ embed, dims, fields }: StoreIndex): Promise<void> {
    const prepare = async (): Promise<void> => {
      const named = fields === undefined || fields.includes('$') ? null : [...fields];
      const found = await this.#data.settings();
      const isSet = found.embed && JSON.stringify(found.embed_fields) === JSON.stringify(named);
      // A client that may only read must find the settings as they are to be.
      const { embedder } = isSet
        ? found
        : await this.#data.changeSettings({ embed: true, embed_fields: named });
      for (const [name, wanted, actual] of [
        ['embed', embed, embedder?.model],
        ['dims', dims, embedder?.dimensions],
      ] as const)
        if (wanted !== undefined && wanted !== actual)
          throw new StoaError(
            'invalid_config',
            `The index of the store has ${name} ${wanted}, and the embedder of the server has ${actual ?? 'none'}.`,
            { fix: `Leave out ${name}, or start the server with that embedder.` },
          );
    };
    this.#indexing ??= prepare().catch((error: unknown) => {
      this.#indexing = undefined;
      throw error;
    });
    return this.#indexing;
  }

  async #get({ namespace, key }: GetOperation): Promise<Item | null> {
    const document = await this.#data.getEntry(itemKey(namespace, key));
    if (document === undefined) return null;
    await this.#refresh([document]);
    return itemOf(document);
  }

  /** With `query` the best first; without it in order of namespace and key. */
  async #search(operation: SearchOperation): Promise<SearchItem[]> {
    const { namespacePrefix, filter, limit = 10, offset = 0, query } = operation;
    if (limit <= 0) return [];
    if (query !== undefined && query.trim() !== '') return this.#find(query, operation);
    const passes = filterOf(filter ?? {});
    const found: DataDocument<Value>[] = [];
    let skipped = 0;
    const pageItems = filter === undefined ? Math.min(pageItemsMax, limit + offset) : pageItemsMax;
    for await (const document of this.#data.entries({ prefix: pathPrefix(namespacePrefix), pageItems })) {
      if (!passes(document.value)) continue;
      skipped += 1;
      if (skipped > offset) found.push(document);
      if (found.length >= limit) break;
    }
    await this.#refresh(found);
    return found.map(itemOf);
  }

  /** Searches by words, over as many pages as needed. Each item has the score of the server. */
  async #find(
    query: string,
    { namespacePrefix, filter, limit = 10, offset = 0 }: SearchOperation,
  ): Promise<SearchItem[]> {
    const found: SearchItem[] = [];
    let [cursor, skipped] = [undefined as string | undefined, 0];
    do {
      const page = await this.#client.find(query, {
        in: ['data'],
        mode: this.#index === null ? 'text' : (this.#index.mode ?? 'vector'),
        namespace: this.#data.namespace,
        prefix: pathPrefix(namespacePrefix) || undefined,
        filter,
        values: true,
        limit: Math.min(100, limit + offset - skipped - found.length),
        cursor,
      });
      for (const { key = '', value, created_at: createdAt, time, score } of page.items) {
        if (skipped < offset) skipped += 1;
        else
          found.push({
            ...parseItemKey(key),
            value: value as Value, // Only items are stored in this namespace, and their values are objects.
            createdAt: new Date(createdAt ?? time),
            updatedAt: new Date(time),
            ...(score !== null && { score }),
          });
      }
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined && found.length < limit);
    return found;
  }

  /** Restarts the time of items that have less than half of it left. A concurrent write does the same. */
  async #refresh(documents: readonly DataDocument<Value>[]): Promise<void> {
    if (!this.#refreshOnRead) return;
    await Promise.all(
      documents.map(async ({ key, value, version, expiresAt, updatedAt }) => {
        if (expiresAt === null) return;
        const lifeMs = Date.parse(expiresAt) - Date.parse(updatedAt);
        const leftMs = Date.parse(expiresAt) - Date.now();
        if (leftMs > lifeMs / 2) return;
        try {
          await this.#data.set(key, value, { ttl: lifeMs / 1_000, ifVersion: version });
        } catch (error) {
          if (!(error instanceof StoaError) || error.code !== 'version_conflict') throw error;
        }
      }),
    );
  }

  async #listNamespaces({
    matchConditions = [],
    maxDepth,
    limit = 100,
    offset = 0,
  }: ListNamespacesOperation): Promise<string[][]> {
    const found = new Map<string, string[]>();
    const prefix = pathPrefix(literalPrefix(matchConditions));
    let cursor: string | undefined;
    do {
      const page = await this.#data.listKeys({ prefix, limit: pageItemsMax, cursor });
      for (const { key } of page.items) {
        const { namespace } = parseItemKey(key);
        if (!matchConditions.every((condition) => isMatch(namespace, condition))) continue;
        const shown = namespace.slice(0, maxDepth);
        found.set(pathPrefix(shown), shown);
      }
      cursor = page.next_cursor ?? undefined;
    } while (cursor !== undefined);
    return [...found.values()].toSorted(comparePaths).slice(offset, offset + limit);
  }

  async #write(puts: readonly StoaPutOperation[]): Promise<void> {
    if (puts.length === 0) return;
    const last = new Map(puts.map((put) => [itemKey(put.namespace, put.key), put]));
    const sets = [...last].flatMap(([key, { value, index, ttlSeconds = this.#ttlSeconds }]) =>
      value === null ? [] : [{ key, value, ttl: ttlSeconds, index: index !== false }],
    );
    const deletes = [...last].flatMap(([key, { value }]) => (value === null ? [key] : []));
    const [ttl, index] = [sets[0]?.ttl, sets[0]?.index];
    if (sets.every((set) => set.ttl === ttl && set.index === index)) {
      const { set } = await this.#data.batch({
        set: Object.fromEntries(sets.map(({ key, value }) => [key, value])),
        delete: deletes,
        ttl,
        index,
      });
      return requireWritten(set);
    }
    // A batch of the data store has one time to live for all keys; a commit has one for each.
    const { namespace } = this.#data;
    const operations = [
      ...sets.map((set) => ({ op: 'data.set' as const, namespace, ...set })),
      ...deletes.map((key) => ({ op: 'data.delete' as const, namespace, key })),
    ];
    // With an Idempotency-Key the server does the work once, also if the request is repeated.
    const outcome = await this.#client.commit(
      { operations },
      { idempotencyKey: globalThis.crypto.randomUUID() },
    );
    if (!outcome.ok)
      throw new StoaError('conflict', outcome.failed.detail, { details: { code: outcome.failed.code } });
  }
}

/** Programs without types may pass LangGraph's own embedding functions, which run in the client. */
function checkedIndex(index: StoreIndex & { readonly embeddings?: unknown }): StoreIndex {
  if (index.embeddings !== undefined || (index.embed !== undefined && typeof index.embed !== 'string'))
    throw new StoaError('unsupported', 'The store cannot use an embedding function: the server embeds.', {
      fix: 'Start the server with --embedder-url, and leave out embed or set it to the name of the model.',
    });
  const path = index.fields?.find((field) => field.includes('['));
  if (path !== undefined)
    throw new StoaError('unsupported', `The field "${path}" names items of a list.`, {
      fix: 'Name the list itself: all its texts are embedded.',
    });
  return index;
}

function itemOf({ key, value, createdAt, updatedAt }: DataDocument<Value>): Item {
  return { ...parseItemKey(key), value, createdAt: new Date(createdAt), updatedAt: new Date(updatedAt) };
}

/** The common prefix of all wanted namespaces, so that only those keys are read. */
function literalPrefix(conditions: readonly MatchCondition[]): string[] {
  const path = conditions.find(({ matchType }) => matchType === 'prefix')?.path ?? [];
  const wildcard = path.indexOf('*');
  return wildcard === -1 ? path : path.slice(0, wildcard);
}

function isMatch(namespace: readonly string[], { matchType, path }: MatchCondition): boolean {
  if (path.length > namespace.length) return false;
  const start = matchType === 'prefix' ? 0 : namespace.length - path.length;
  return path.every((part, index) => part === '*' || part === namespace[start + index]);
}

function comparePaths(left: readonly string[], right: readonly string[]): number {
  const depth = Math.min(left.length, right.length);
  for (let index = 0; index < depth; index += 1) {
    const [one = '', other = ''] = [left[index], right[index]];
    if (one !== other) return one < other ? -1 : 1;
  }
  return left.length - right.length;
}
