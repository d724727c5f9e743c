/** What Stoa asks of a CouchDB server: databases, indexes, documents, lists. */
import { type Cancellation, checkWanted } from '../../core/waiting/cancellation.js';
import type { Limits } from '../../core/settings/limits.js';
import { CouchTransport, isLate, refusal } from './transport.js';

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

export class CouchClient {
  readonly #transport: CouchTransport;
  readonly #limits: Limits;

  constructor(url: URL, limits: Limits) {
    this.#transport = new CouchTransport(url, limits);
    this.#limits = limits;
  }

  /** Creates a database. An existing one is not an error. */
  async createDatabase(database: string): Promise<void> {
    const { status, body } = await this.#transport.send(
      'PUT',
      `/${encodeURIComponent(database)}`,
      undefined,
      true,
    );
    if (status !== 201 && status !== 202 && status !== 412) throw refusal(status, body);
  }

  /** Throws unless the database answers. */
  async checkDatabase(database: string): Promise<void> {
    await this.#transport.expect('GET', `/${encodeURIComponent(database)}`, undefined, true);
  }

  /** Creates an index if it is missing, and returns the name of its design document. */
  async createIndex(database: string, definition: IndexDefinition): Promise<string> {
    const { id } = await this.#transport.expect(
      'POST',
      `/${encodeURIComponent(database)}/_index`,
      definition,
      true,
    );
    return String(id).replace('_design/', '');
  }

  /** Creates a design document if it is missing; an existing one of that name stays. */
  async createDesign(
    database: string,
    name: string,
    views: Readonly<Record<string, { map: string; reduce: string }>>,
  ): Promise<void> {
    const { status, body } = await this.#transport.send(
      'PUT',
      `/${encodeURIComponent(database)}/_design/${encodeURIComponent(name)}`,
      { language: 'javascript', views },
      true,
    );
    if (status >= 400 && status !== 409) throw refusal(status, body);
  }

  /** The sums of a view, group by group. */
  async reduced(
    database: string,
    design: string,
    view: string,
    range: { startkey: readonly unknown[]; endkey: readonly unknown[]; group_level: number },
    signal?: Cancellation,
  ): Promise<unknown[]> {
    const parameters = Object.entries(range).map(
      ([name, value]) => `${name}=${encodeURIComponent(JSON.stringify(value))}`,
    );
    const path = `/${encodeURIComponent(database)}/_design/${encodeURIComponent(design)}/_view/${view}`;
    const body = await this.#whenIndexed(database, signal, () =>
      this.#transport.expect('GET', `${path}?${parameters.join('&')}`, undefined, true),
    );
    return body['rows'] as unknown[];
  }

  /** The index that would serve a query. */
  async explain(database: string, query: FindQuery): Promise<string | undefined> {
    const body = await this.#transport.expect(
      'POST',
      `/${encodeURIComponent(database)}/_explain`,
      query,
      true,
    );
    const { name } = (body['index'] ?? {}) as { name?: unknown };
    return typeof name === 'string' ? name : undefined;
  }

  /** The documents with these ids, in their order; undefined if a document does not exist. */
  async getAll(database: string, ids: readonly string[]): Promise<(CouchDocument | undefined)[]> {
    if (ids.length === 0) return [];
    const body = await this.#transport.expect(
      'POST',
      `/${encodeURIComponent(database)}/_all_docs?include_docs=true`,
      { keys: ids },
      true,
    );
    const rows = body['rows'] as readonly { doc?: CouchDocument | null; value?: { deleted?: boolean } }[];
    return rows.map((row) => (row.doc === null || row.value?.deleted === true ? undefined : row.doc));
  }

  /** One document; for a single one it is cheaper than `getAll`. */
  async get(database: string, id: string): Promise<CouchDocument | undefined> {
    const { status, body } = await this.#transport.send(
      'GET',
      `/${encodeURIComponent(database)}/${encodeURIComponent(id)}`,
      undefined,
      true,
    );
    if (status === 404) return undefined;
    if (status !== 200) throw refusal(status, body);
    return body as CouchDocument;
  }

  /**
   * The tombstone of a deleted document with its fields; undefined if no document was deleted under this id.
   */
  async tombstone(database: string, id: string): Promise<CouchDocument | undefined> {
    const listed = await this.#transport.expect(
      'POST',
      `/${encodeURIComponent(database)}/_all_docs`,
      { keys: [id] },
      true,
    );
    const [row] = listed['rows'] as readonly { value?: { rev: string; deleted?: boolean } }[];
    if (row?.value?.deleted !== true) return undefined;
    const { status, body } = await this.#transport.send(
      'GET',
      `/${encodeURIComponent(database)}/${encodeURIComponent(id)}?rev=${encodeURIComponent(row.value.rev)}`,
      undefined,
      true,
    );
    return status === 200 ? (body as CouchDocument) : undefined;
  }

  /** Every document in the order of the ids, design documents among them. */
  async allAfter(database: string, after: string | null, limit: number): Promise<CouchDocument[]> {
    // Starts at the last document instead of skipping rows: if that document was deleted, the next one must
    // not be skipped.
    const start = after === null ? '' : `&startkey=${encodeURIComponent(JSON.stringify(after))}`;
    const body = await this.#transport.expect(
      'GET',
      `/${encodeURIComponent(database)}/_all_docs?include_docs=true&limit=${after === null ? limit : limit + 1}${start}`,
      undefined,
      true,
    );
    return (body['rows'] as readonly { doc: CouchDocument }[])
      .map(({ doc }) => doc)
      .filter(({ _id }) => _id !== after)
      .slice(0, limit);
  }

  /** The ids from one up to another, which is left out. */
  async idsBetween(database: string, first: string, end: string): Promise<string[]> {
    const bounds = `startkey=${encodeURIComponent(JSON.stringify(first))}&endkey=${encodeURIComponent(JSON.stringify(end))}&inclusive_end=false`;
    const body = await this.#transport.expect(
      'GET',
      `/${encodeURIComponent(database)}/_all_docs?${bounds}`,
      undefined,
      true,
    );
    return (body['rows'] as readonly { id: string }[]).map(({ id }) => id);
  }

  /**
   * Writes many documents. Each succeeds or conflicts separately. Not tried again, because the write may have
   * happened.
   */
  async bulk(database: string, docs: readonly CouchDocument[]): Promise<BulkResult[]> {
    if (docs.length === 0) return [];
    const body = await this.#transport.expect(
      'POST',
      `/${encodeURIComponent(database)}/_bulk_docs`,
      { docs },
      false,
    );
    return body as unknown as BulkResult[]; // CouchDB answers a list here.
  }

  /** All that a query finds, page after page, up to its limit. */
  async find(database: string, query: FindQuery, signal?: Cancellation): Promise<CouchDocument[]> {
    const found: CouchDocument[] = [];
    let bookmark: string | undefined;
    while (found.length < query.limit) {
      const limit = Math.min(query.limit - found.length, findPageMax);
      const request = { ...query, limit, ...(bookmark !== undefined && { bookmark }) };
      const body = await this.#whenIndexed(database, signal, () =>
        this.#transport.expect('POST', `/${encodeURIComponent(database)}/_find`, request, true),
      );
      const page = body['docs'] as CouchDocument[];
      found.push(...page);
      if (page.length < limit) break;
      bookmark = String(body['bookmark']);
    }
    return found;
  }

  /** Ends the running requests: their callers get the error `closed`. */
  close(): void {
    this.#transport.close();
  }

  /**
   * CouchDB updates an index before it answers from it. After very many writes that takes longer than a
   * request may. While the server answers other requests, the query is repeated for at most
   * `backendReadySecondsMax`.
   */
  async #whenIndexed<T>(
    database: string,
    signal: Cancellation | undefined,
    ask: () => Promise<T>,
  ): Promise<T> {
    const endMs = performance.now() + this.#limits.backendReadySecondsMax * 1_000;
    for (;;) {
      checkWanted(signal);
      try {
        return await ask();
      } catch (error) {
        if (!isLate(error) || performance.now() >= endMs) throw error;
        await this.checkDatabase(database);
      }
    }
  }
}

/** CouchDB takes more, but a page of large documents should stay small. */
const findPageMax = 500;
