/** What Stoa asks of a CouchDB server: databases, indexes, documents, lists. */
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import type { Limits } from '../../core/settings/limits.js';
import { type Answer, type CouchTransport, isLate, refusal } from './transport.js';

/** A document as CouchDB holds it. */
export type CouchDocument = Readonly<Record<string, unknown>> & {
  readonly _id: string;
  readonly _rev?: string;
};

export interface BulkResult {
  id: string;
  rev?: string;
  error?: string;
  reason?: string;
}

export interface FindQuery {
  selector: Readonly<Record<string, unknown>>;
  fields?: readonly string[];
  sort?: readonly Readonly<Record<string, 'asc' | 'desc'>>[];
  limit: number;
  use_index?: string;
}

/**
 * A Mango index as `_index` takes it. Without `ddoc` CouchDB derives the design document's name from the
 * definition.
 */
export interface IndexDefinition {
  index: { fields: readonly string[]; partial_filter_selector?: Readonly<Record<string, unknown>> };
  name: string;
  ddoc?: string;
  type: 'json';
}

/** One database of a server. */
export class CouchDatabase {
  readonly #transport: CouchTransport;
  readonly #name: string;
  readonly #limits: Limits;

  constructor(transport: CouchTransport, name: string, limits: Limits) {
    this.#transport = transport;
    this.#name = name;
    this.#limits = limits;
  }

  /** Another database of the same server. */
  beside(suffix: string): CouchDatabase {
    return new CouchDatabase(this.#transport, this.#name + suffix, this.#limits);
  }

  get name(): string {
    return this.#name;
  }

  /** Creates the database. An existing one is not an error. */
  async create(): Promise<void> {
    const { status, body } = await this.#send('PUT', '');
    if (status !== 201 && status !== 202 && status !== 412) throw refusal(status, body);
  }

  /** Creates an index if it is missing, and returns the name of its design document. */
  async createIndex(definition: IndexDefinition): Promise<string> {
    const { id } = await this.#expect('POST', '/_index', definition);
    return String(id).replace('_design/', '');
  }

  /** Creates a design document if it is missing; an existing one of that name stays. */
  async createDesign(
    name: string,
    views: Readonly<Record<string, { map: string; reduce: string }>>,
  ): Promise<void> {
    const design = { language: 'javascript', views };
    const { status, body } = await this.#send('PUT', `/_design/${encodeURIComponent(name)}`, design);
    if (status >= 400 && status !== 409) throw refusal(status, body);
  }

  /** The sums of a view, group by group. */
  async reduced(
    design: string,
    view: string,
    range: { startkey: readonly unknown[]; endkey: readonly unknown[]; group_level: number },
    signal?: Cancellation,
  ): Promise<unknown[]> {
    const path = `/_design/${encodeURIComponent(design)}/_view/${view}?${queryOf(range)}`;
    const body = await this.#whenIndexed(signal, () => this.#expect('GET', path));
    return body['rows'] as unknown[];
  }

  /** The index that would serve a query. */
  async explain(query: FindQuery): Promise<string | undefined> {
    const body = await this.#expect('POST', '/_explain', query);
    const { name } = (body['index'] ?? {}) as { name?: unknown };
    return typeof name === 'string' ? name : undefined;
  }

  /** The documents with these ids, in their order; undefined if a document does not exist. */
  async getAll(ids: readonly string[]): Promise<(CouchDocument | undefined)[]> {
    if (ids.length === 0) return [];
    const body = await this.#expect('POST', '/_all_docs?include_docs=true', { keys: ids });
    const rows = body['rows'] as readonly { doc?: CouchDocument | null; value?: { deleted?: boolean } }[];
    return rows.map((row) => (row.doc === null || row.value?.deleted === true ? undefined : row.doc));
  }

  /** One document; for a single one it is cheaper than `getAll`. */
  async get(id: string): Promise<CouchDocument | undefined> {
    const { status, body } = await this.#send('GET', `/${encodeURIComponent(id)}`);
    if (status === 404) return undefined;
    if (status !== 200) throw refusal(status, body);
    return body as CouchDocument;
  }

  /**
   * The tombstone of a deleted document with its fields; undefined if no document was deleted under this id.
   */
  async tombstone(id: string): Promise<CouchDocument | undefined> {
    const listed = await this.#expect('POST', '/_all_docs', { keys: [id] });
    const [row] = listed['rows'] as readonly { value?: { rev: string; deleted?: boolean } }[];
    if (row?.value?.deleted !== true) return undefined;
    const path = `/${encodeURIComponent(id)}?rev=${encodeURIComponent(row.value.rev)}`;
    const { status, body } = await this.#send('GET', path);
    return status === 200 ? (body as CouchDocument) : undefined;
  }

  /** Every document in the order of the ids, design documents among them. */
  async allAfter(after: string | null, limit: number): Promise<CouchDocument[]> {
    // Starts at the last document instead of skipping rows: if that document was deleted, the next one must
    // not be skipped.
    const range = after === null ? { limit } : { limit: limit + 1, startkey: after };
    const body = await this.#expect('GET', `/_all_docs?${queryOf({ include_docs: true, ...range })}`);
    return (body['rows'] as readonly { doc: CouchDocument }[])
      .map(({ doc }) => doc)
      .filter(({ _id }) => _id !== after)
      .slice(0, limit);
  }

  /** The ids from one up to another, which is left out. */
  async idsBetween(first: string, end: string): Promise<string[]> {
    const bounds = queryOf({ startkey: first, endkey: end, inclusive_end: false });
    const body = await this.#expect('GET', `/_all_docs?${bounds}`);
    return (body['rows'] as readonly { id: string }[]).map(({ id }) => id);
  }

  /**
   * Writes many documents. Each succeeds or conflicts separately. Not tried again, because the write may have
   * happened.
   */
  async bulk(docs: readonly CouchDocument[]): Promise<BulkResult[]> {
    if (docs.length === 0) return [];
    const path = `/${encodeURIComponent(this.#name)}/_bulk_docs`;
    const body = await this.#transport.expect('POST', path, { docs }, false);
    return body as unknown as BulkResult[]; // CouchDB answers a list here.
  }

  /** All that a query finds, page after page, up to its limit. */
  async find(query: FindQuery, signal?: Cancellation): Promise<CouchDocument[]> {
    const found: CouchDocument[] = [];
    let bookmark: string | undefined;
    while (found.length < query.limit) {
      const limit = Math.min(query.limit - found.length, findPageMax);
      const request = { ...query, limit, ...(bookmark !== undefined && { bookmark }) };
      const body = await this.#whenIndexed(signal, () => this.#expect('POST', '/_find', request));
      const page = body['docs'] as CouchDocument[];
      found.push(...page);
      if (page.length < limit) break;
      bookmark = String(body['bookmark']);
    }
    return found;
  }

  /** Ends the running requests to the server: their callers get the error `closed`. */
  close(): void {
    this.#transport.close();
  }

  /**
   * CouchDB updates an index before it answers from it. After very many writes that takes longer than a
   * request may. While the server answers other requests, the query is repeated for at most
   * `backendReadySecondsMax`.
   */
  async #whenIndexed<T>(signal: Cancellation | undefined, ask: () => Promise<T>): Promise<T> {
    const endMs = performance.now() + this.#limits.backendReadySecondsMax * 1_000;
    for (;;) {
      checkWanted(signal);
      try {
        return await ask();
      } catch (error) {
        if (!isLate(error) || performance.now() >= endMs) throw error;
        // Throws unless the database answers.
        await this.#expect('GET', '');
      }
    }
  }

  /** A request that may be repeated; an answer that refuses it is an error. */
  #expect(method: string, path: string, payload?: unknown): Promise<Record<string, unknown>> {
    return this.#transport.expect(method, `/${encodeURIComponent(this.#name)}${path}`, payload, true);
  }

  #send(method: string, path: string, payload?: unknown): Promise<Answer> {
    return this.#transport.send(method, `/${encodeURIComponent(this.#name)}${path}`, payload, true);
  }
}

/** Values of a query are JSON. */
function queryOf(parameters: Readonly<Record<string, unknown>>): string {
  return Object.entries(parameters)
    .map(([name, value]) => `${name}=${encodeURIComponent(JSON.stringify(value))}`)
    .join('&');
}

/** CouchDB takes more, but a page of large documents should stay small. */
const findPageMax = 500;
