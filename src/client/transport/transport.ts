/**
 * Sends requests to a Stoa server: credentials, retries, and errors with the server's codes. No Node
 * built-ins.
 */
import { type CallRequest, queryText } from '../../api/call.js';
import { StoaError, messageOf } from '../../core/errors.js';
import { percentEncoded } from '../../core/text/path-segment.js';
import { refusalOf } from './refusal.js';
import { type ServerEvent, ServerEvents } from './server-events.js';

export interface TransportOptions {
  /** The URL of the server: `http://127.0.0.1:7862`. */
  url: string;
  /** A bearer token; left out if a proxy adds one. */
  token?: string | undefined;
  /** The user to act for. Only the operator may set it. */
  user?: string | undefined;
  /** The agent name that is recorded with reads and writes. */
  agent?: string | undefined;
  /** Attempts of a call that may safely be repeated. */
  attemptsMax?: number | undefined;
  /** The first pause before a repeat; it doubles each time. */
  retryDelayMs?: number | undefined;
  /** Time until the answer must begin; 0 waits forever. */
  timeoutMs?: number | undefined;
  /** Replaces the global `fetch`. */
  fetch?: typeof fetch | undefined;
}

const retryDelayMsMax = 5_000;
/** The server refuses with these codes before it does anything. */
const refusedUntouched: ReadonlySet<string> = new Set(['rate_limited', 'overloaded', 'closed']);

export class Transport {
  readonly #options: TransportOptions;
  readonly #base: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #fetch: typeof fetch;

  constructor(options: TransportOptions) {
    if (!/^https?:\/\//i.test(options.url))
      throw new StoaError('invalid_config', `"${options.url}" is not a valid server URL.`, {
        fix: 'Use a URL like http://127.0.0.1:7862.',
      });
    this.#options = options;
    this.#base = options.url.replace(/\/+$/, '');
    // In browsers `fetch` must be called as a method of the window.
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
    this.#headers = {
      ...(options.token !== undefined && { authorization: `Bearer ${options.token}` }),
      ...(options.user !== undefined && { 'stoa-user': percentEncoded(options.user) }),
      ...(options.agent !== undefined && { 'stoa-agent': percentEncoded(options.agent) }),
    };
  }

  /** The same server and credentials, in the name of another agent. */
  as(agent: string): Transport {
    return new Transport({ ...this.#options, agent });
  }

  /** The JSON of a successful answer. An error is thrown with the server's code. */
  async call<Body>(request: CallRequest): Promise<Body> {
    return (await this.#ask<Body>(request)).body;
  }

  /** A page, and the position in the change feed from which to follow later changes. */
  async page<Body>(request: CallRequest): Promise<{ body: Body; position: string }> {
    const { body, answer } = await this.#ask<Body>(request);
    const position = answer.headers.get('stoa-position');
    if (position === null)
      throw new StoaError('unsupported', `${this.#base}${request.path} returned no Stoa-Position header.`, {
        fix: 'Update the server, or let the proxy pass Stoa-Position.',
      });
    return { body, position };
  }

  async #ask<Body>(request: CallRequest): Promise<{ body: Body; answer: Response }> {
    const attemptsMax = this.#options.attemptsMax ?? 5;
    for (let attempt = 1; ; attempt += 1) {
      try {
        const { answer, release } = await this.#send(request);
        const text = await answer.text().finally(release);
        // Each operation declares the type of its answer.
        if (answer.ok) return { body: (text === '' ? undefined : JSON.parse(text)) as Body, answer };
        throw refusalIn(answer, text);
      } catch (thrown) {
        request.signal?.throwIfAborted();
        const error = thrown instanceof StoaError ? thrown : unreachable(this.#base, thrown);
        if (attempt >= attemptsMax || !mayRepeat(request, error)) throw error;
        await pause(delayOf(attempt, error, this.#options.retryDelayMs ?? 100), request.signal);
      }
    }
  }

  /** Server-sent events until the server or the signal ends them. */
  async *events(request: CallRequest): AsyncGenerator<ServerEvent> {
    const events = new ServerEvents();
    const headers = { ...request.headers, accept: 'text/event-stream' };
    for await (const chunk of this.bytes({ ...request, headers })) yield* events.take(chunk);
  }

  /** The bytes of an answer as they arrive. */
  async *bytes(request: CallRequest): AsyncGenerator<Uint8Array> {
    const { answer, release } = await this.#send(request);
    try {
      if (!answer.ok || answer.body === null) throw refusalIn(answer, await answer.text());
      yield* readChunks(answer.body);
    } finally {
      release();
    }
  }

  /** The signal also aborts reading the body; `release` removes the listener. */
  async #send(request: CallRequest): Promise<{ answer: Response; release: () => void }> {
    const { method, path, query, body, contentType, signal } = request;
    const url = this.#base + path + queryText(query);
    const text = body === undefined || body instanceof ReadableStream ? body : jsonOf(body);
    const stop = new AbortController();
    const abort = (): void => stop.abort(signal?.reason);
    signal?.throwIfAborted();
    signal?.addEventListener('abort', abort, { once: true });
    const timeoutMs = this.#options.timeoutMs ?? 30_000;
    const timeout =
      timeoutMs === 0
        ? undefined
        : setTimeout(() => stop.abort(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
    const release = (): void => signal?.removeEventListener('abort', abort);
    try {
      const answer = await this.#fetch(url, {
        method,
        headers: {
          ...this.#headers,
          ...(text !== undefined && { 'content-type': contentType }),
          ...request.headers,
        },
        ...(text !== undefined && { body: text }),
        // A stream as the body must be sent completely before the answer is read.
        ...(text instanceof ReadableStream && { duplex: 'half' }),
        signal: stop.signal,
      });
      return { answer, release };
    } catch (error) {
      release();
      signal?.throwIfAborted();
      throw unreachable(this.#base, stop.signal.aborted ? stop.signal.reason : error);
    } finally {
      clearTimeout(timeout);
    }
  }
}

function mayRepeat({ repeatable, body }: CallRequest, error: StoaError): boolean {
  // A stream can be read only once.
  if (body instanceof ReadableStream) return false;
  return refusedUntouched.has(error.code) || (error.passes === 'shortly' && repeatable);
}

/** The time that the server asks for, or twice the previous time, with a random part. */
function delayOf(attempt: number, error: StoaError, firstMs: number): number {
  const asked = error.details?.['retryAfterSeconds'];
  const doubled = Math.min(retryDelayMsMax, firstMs * 2 ** (attempt - 1)) * (0.5 + Math.random() / 2);
  return typeof asked === 'number' ? Math.max(Math.min(asked * 1000, retryDelayMsMax), doubled) : doubled;
}

function pause(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      clearTimeout(timer);
      // An aborted call rejects with the signal's reason.
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve();
    }, milliseconds);
    signal?.addEventListener('abort', abort, { once: true });
  });
}

function jsonOf(body: unknown): string {
  try {
    return JSON.stringify(body);
  } catch (error) {
    throw new StoaError(
      'invalid_request',
      `The request is not JSON: ${messageOf(error).split('\n', 1)[0]}.`,
      { cause: error },
    );
  }
}

function unreachable(base: string, cause: unknown): StoaError {
  const inner = cause instanceof Error && cause.cause !== undefined ? cause.cause : cause;
  return new StoaError('unreachable', `No server answers at ${base}: ${messageOf(inner)}.`, { cause });
}

async function* readChunks(body: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array> {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel();
  }
}

/** The error in an answer, with the server's Retry-After. */
function refusalIn(answer: Response, text: string): StoaError {
  const retryAfterSeconds = Number(answer.headers.get('retry-after') ?? Number.NaN);
  return refusalOf(answer.status, text, Number.isFinite(retryAfterSeconds) ? retryAfterSeconds : undefined);
}
