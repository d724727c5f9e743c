/** Requests to a CouchDB server: JSON, with a time limit, and with errors of Stoa. */
import { StoaError, messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { withRetries } from '../retries.js';

export interface Answer {
  status: number;
  body: Record<string, unknown>;
}

/** The request was refused for now, and nothing was done. */
const busyStatuses: ReadonlySet<number> = new Set([429, 502, 503]);

/** There was no connection, so nothing was done. */
const unconnectedCodes: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
]);

/** It is unknown whether the request was carried out. */
export function isUnanswered(error: unknown): error is StoaError {
  return (
    error instanceof StoaError &&
    error.code === 'backend_unavailable' &&
    error.details?.['untouched'] !== true
  );
}

/** The server received the request and did not answer in time. It may be updating an index. */
export function isLate(error: unknown): boolean {
  return isUnanswered(error) && error.details?.['late'] === true;
}

export class CouchTransport {
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #limits: Limits;
  readonly #underWay = new Set<AbortController>();
  #isClosed = false;

  /**
   * `couchdb://user:password@host:5984/…` is HTTP, `couchdbs://` is HTTPS. Node's fetch refuses credentials
   * in a URL, so they go into a header.
   */
  constructor(url: URL, limits: Limits) {
    this.#base = `${url.protocol === 'couchdbs:' ? 'https' : 'http'}://${url.host}`;
    const credentials = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
    this.#headers = {
      accept: 'application/json',
      ...(url.username !== '' && { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` }),
    };
    this.#limits = limits;
  }

  /** As `send`, but an answer that refuses the request is an error. */
  async expect(
    method: string,
    path: string,
    payload: unknown,
    isSafe: boolean,
  ): Promise<Record<string, unknown>> {
    const { status, body } = await this.send(method, path, payload, isSafe);
    if (status >= 400) throw refusal(status, body);
    return body;
  }

  /** Ends the running requests: their callers get the error `closed`. */
  close(): void {
    this.#isClosed = true;
    for (const request of this.#underWay) request.abort(closed());
  }

  /**
   * A safe request is tried again after any failure; any other request only if the server refused it without
   * doing anything.
   */
  send(method: string, path: string, payload: unknown, isSafe: boolean): Promise<Answer> {
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
    let late = false;
    const timer = setTimeout(() => {
      late = true;
      request.abort(new Error(`no answer within ${seconds} s`));
    }, seconds * 1_000);
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
        fix: 'Check that CouchDB is running and reachable.',
        cause: error,
        ...((untouched || late) && { details: { untouched, late } }),
      });
    } finally {
      clearTimeout(timer);
      this.#underWay.delete(request);
    }
    if (busyStatuses.has(answer.status))
      throw new StoaError('backend_unavailable', `CouchDB is busy: it returned status ${answer.status}.`, {
        fix: 'Try again shortly.',
        details: { untouched: true },
      });
    return { status: answer.status, body: parsed(text, answer.status) };
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined;
}

function closed(): StoaError {
  return new StoaError('closed', 'The connection to CouchDB is closed.');
}

function parsed(text: string, status: number): Record<string, unknown> {
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch (error) {
    throw new StoaError(
      'backend_unavailable',
      `The server at the address of CouchDB returned status ${status} and a body that is not JSON.`,
      { fix: 'Check that the address is that of CouchDB, and not of a proxy before it.', cause: error },
    );
  }
}

/** What to do about a document that CouchDB finds too large. */
export const tooLargeFix = 'Raise max_document_size in the configuration of CouchDB, or split the value.';

export function refusal(status: number, body: Record<string, unknown>): StoaError {
  const reason = String(body['reason'] ?? body['error'] ?? `status ${status}`);
  if (status === 401 || status === 403)
    return new StoaError('invalid_config', `CouchDB rejected the credentials: ${reason}.`, {
      fix: 'Use a user with read and write access to the database: couchdb://user:password@host:5984.',
    });
  if (status === 413)
    return new StoaError('too_large', `CouchDB rejected the document because it is too large: ${reason}.`, {
      fix: tooLargeFix,
    });
  return new StoaError(
    status >= 500 ? 'backend_unavailable' : 'engine',
    `CouchDB reported ${status}: ${reason}.`,
    // CouchDB's error for work that takes longer than its settings allow.
    body['error'] === 'timeout' ? { details: { late: true } } : {},
  );
}
