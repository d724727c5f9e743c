/** Requests to a CouchDB server: JSON both ways, faults in Stoa's own words. */
import { StoaError, messageOf } from '../../errors.js';
import type { Limits } from '../../limits.js';
import { withRetries } from '../retries.js';

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
  use_index: string;
}

interface Answer {
  status: number;
  body: Record<string, unknown>;
}

/** Refused for the moment, and nothing was done. */
const busyStatuses: ReadonlySet<number> = new Set([429, 502, 503]);

/** There was no connection, so that nothing was done either. */
const unconnectedCodes: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

/** Nobody can say whether the request was carried out. */
export function isUnanswered(error: unknown): error is StoaError {
  return (
    error instanceof StoaError &&
    error.code === 'backend_unavailable' &&
    error.details?.['untouched'] !== true
  );
}

export class CouchClient {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #limits: Limits;
  readonly #underWay = new Set<AbortController>();
  #isClosed = false;

  /** `couchdb://user:password@host:5984/…` is HTTP, `couchdbs://` is HTTPS. */
  constructor(url: URL, limits: Limits) {
    this.#base = `${url.protocol === 'couchdbs:' ? 'https' : 'http'}://${url.host}`;
    const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    this.#headers = {
      accept: 'application/json',
      ...(url.username !== '' && { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }),
    };
    this.#limits = limits;
  }

  /** Makes a database; one that is there already is as good. */
  async createDatabase(database: string): Promise<void> {
    const { status, body } = await this.#send('PUT', `/${encodeURIComponent(database)}`, undefined, true);
    if (status !== 201 && status !== 202 && status !== 412) throw refusal(status, body);
  }

  /** Throws unless the database answers. */
  async checkDatabase(database: string): Promise<void> {
    await this.#expect('GET', `/${encodeURIComponent(database)}`, undefined, true);
  }

  /** Makes an index where it is missing. */
  async createIndex(database: string, name: string, fields: readonly string[]): Promise<void> {
    await this.#expect(
      'POST',
      `/${encodeURIComponent(database)}/_index`,
      { index: { fields }, name, ddoc: name, type: 'json' },
      true,
    );
  }

  /** Makes a design document where it is missing; one of that name that is there stays. */
  async createDesign(
    database: string,
    name: string,
    views: Readonly<Record<string, { map: string; reduce: string }>>,
  ): Promise<void> {
    const { status, body } = await this.#send(
      'PUT',
      `/${encodeURIComponent(database)}/_design/${encodeURIComponent(name)}`,
      { language: 'javascript', views },
      true,
    );
    if (status >= 400 && status !== 409) throw refusal(status, body);
  }

  /** What a view has added up, group by group. */
  async reduced(
    database: string,
    design: string,
    view: string,
    range: { startkey: readonly unknown[]; endkey: readonly unknown[]; group_level: number },
  ): Promise<unknown[]> {
    const parameters = Object.entries(range).map(
      ([name, value]) => `${name}=${encodeURIComponent(JSON.stringify(value))}`,
    );
    const body = await this.#expect(
      'GET',
      `/${encodeURIComponent(database)}/_design/${encodeURIComponent(design)}/_view/${view}?${parameters.join('&')}`,
      undefined,
      true,
    );
    return body['rows'] as unknown[];
  }

  /** The index that would serve a query. */
  async explain(database: string, query: FindQuery): Promise<string | undefined> {
    const body = await this.#expect('POST', `/${encodeURIComponent(database)}/_explain`, query, true);
    const { name } = (body['index'] ?? {}) as { name?: unknown };
    return typeof name === 'string' ? name : undefined;
  }

  /** The documents under these ids, in their order; undefined where there is none. */
  async getAll(database: string, ids: readonly string[]): Promise<(CouchDocument | undefined)[]> {
    if (ids.length === 0) return [];
    const body = await this.#expect(
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
    const { status, body } = await this.#send(
      'GET',
      `/${encodeURIComponent(database)}/${encodeURIComponent(id)}`,
      undefined,
      true,
    );
    if (status === 404) return undefined;
    if (status !== 200) throw refusal(status, body);
    return body as CouchDocument;
  }

  /** What a deletion left under this id, with the fields that it wrote; undefined where there is no deleted document. */
  async tombstone(database: string, id: string): Promise<CouchDocument | undefined> {
    const listed = await this.#expect(
      'POST',
      `/${encodeURIComponent(database)}/_all_docs`,
      { keys: [id] },
      true,
    );
    const [row] = listed['rows'] as readonly { value?: { rev: string; deleted?: boolean } }[];
    if (row?.value?.deleted !== true) return undefined;
    const { status, body } = await this.#send(
      'GET',
      `/${encodeURIComponent(database)}/${encodeURIComponent(id)}?rev=${encodeURIComponent(row.value.rev)}`,
      undefined,
      true,
    );
    return status === 200 ? (body as CouchDocument) : undefined;
  }

  /** Every document in the order of the ids, design documents among them. */
  async allAfter(database: string, after: string | null, limit: number): Promise<CouchDocument[]> {
    // From the last one on and not past a number of rows: it may be gone by now, and the next must not be taken for it.
    const start = after === null ? '' : `&startkey=${encodeURIComponent(JSON.stringify(after))}`;
    const body = await this.#expect(
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
    const body = await this.#expect(
      'GET',
      `/${encodeURIComponent(database)}/_all_docs?${bounds}`,
      undefined,
      true,
    );
    return (body['rows'] as readonly { id: string }[]).map(({ id }) => id);
  }

  /** Writes many documents; each succeeds or conflicts for itself. Not tried again: it may have happened. */
  async bulk(database: string, docs: readonly CouchDocument[]): Promise<BulkResult[]> {
    if (docs.length === 0) return [];
    const body = await this.#expect('POST', `/${encodeURIComponent(database)}/_bulk_docs`, { docs }, false);
    return body as unknown as BulkResult[]; // CouchDB answers a list here.
  }

  /** All that a query finds, page after page, up to its limit. */
  async find(database: string, query: FindQuery): Promise<CouchDocument[]> {
    const found: CouchDocument[] = [];
    let bookmark: string | undefined;
    while (found.length < query.limit) {
      const limit = Math.min(query.limit - found.length, findPageMax);
      const body = await this.#expect(
        'POST',
        `/${encodeURIComponent(database)}/_find`,
        { ...query, limit, ...(bookmark !== undefined && { bookmark }) },
        true,
      );
      const page = body['docs'] as CouchDocument[];
      found.push(...page);
      if (page.length < limit) break;
      bookmark = String(body['bookmark']);
    }
    return found;
  }

  /** Ends what is under way; whoever waits for it hears that. */
  close(): void {
    this.#isClosed = true;
    for (const request of this.#underWay) request.abort(closed());
  }

  async #expect(
    method: string,
    path: string,
    payload: unknown,
    isSafe: boolean,
  ): Promise<Record<string, unknown>> {
    const { status, body } = await this.#send(method, path, payload, isSafe);
    if (status >= 400) throw refusal(status, body);
    return body;
  }

  /** A safe request is tried again after any failure; another one only when the server refused it untouched. */
  #send(method: string, path: string, payload: unknown, isSafe: boolean): Promise<Answer> {
    return withRetries(
      this.#limits,
      (error) =>
        error instanceof StoaError &&
        error.code === 'backend_unavailable' &&
        (isSafe || error.details?.['untouched'] === true),
      () => this.#attempt(method, path, payload),
    );
  }

  async #attempt(method: string, path: string, payload: unknown): Promise<Answer> {
    if (this.#isClosed) throw closed();
    const request = new AbortController();
    const seconds = this.#limits.backendRequestSecondsMax;
    const timer = setTimeout(
      () => request.abort(new Error(`no answer within ${seconds} s`)),
      seconds * 1_000,
    );
    this.#underWay.add(request);
    let answer: Response;
    let text: string;
    try {
      answer = await fetch(this.#base + path, {
        method,
        headers: { ...this.#headers, ...(payload !== undefined && { 'content-type': 'application/json' }) },
        ...(payload !== undefined && { body: JSON.stringify(payload) }),
        signal: request.signal,
      });
      text = await answer.text();
    } catch (error) {
      if (error instanceof StoaError) throw error;
      const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
      const untouched = unconnectedCodes.has(codeOf(cause));
      throw new StoaError('backend_unavailable', `CouchDB does not answer: ${messageOf(cause)}.`, {
        fix: 'Check that the server runs and can be reached.',
        cause: error,
        ...(untouched && { details: { untouched } }),
      });
    } finally {
      clearTimeout(timer);
      this.#underWay.delete(request);
    }
    if (busyStatuses.has(answer.status))
      throw new StoaError('backend_unavailable', `CouchDB is busy: it answered ${answer.status}.`, {
        details: { untouched: true },
      });
    return { status: answer.status, body: parsed(text, answer.status) };
  }
}

function closed(): StoaError {
  return new StoaError('closed', 'The connection to CouchDB is closed.');
}

/** CouchDB takes more, but a page of large documents should stay small. */
const findPageMax = 500;

function parsed(text: string, status: number): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new StoaError(
      'backend_unavailable',
      `What answers at the address of CouchDB (${status}) does not speak JSON.`,
      { cause: error },
    );
  }
}

function refusal(status: number, body: Record<string, unknown>): StoaError {
  const reason = String(body['reason'] ?? body['error'] ?? `status ${status}`);
  if (status === 401 || status === 403)
    return new StoaError('invalid_config', `CouchDB refuses these credentials: ${reason}.`, {
      fix: 'Name a user who may read and write the database: couchdb://user:password@host:5984.',
    });
  if (status === 413)
    return new StoaError('too_large', `CouchDB refuses the document as too large: ${reason}.`, {
      fix: 'Raise max_document_size in its configuration, or split the value.',
    });
  return new StoaError(
    status >= 500 ? 'backend_unavailable' : 'engine',
    `CouchDB reported ${status}: ${reason}.`,
  );
}
