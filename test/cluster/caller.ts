/**
 * Calls through the balancer, of which each answer is accepted, refused, or unknown. Nothing is sent twice by
 * itself.
 */
import { setTimeout as sleep } from 'node:timers/promises';

export interface Request {
  readonly method: 'GET' | 'POST' | 'PUT';
  readonly path: string;
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export type Reply =
  | { readonly outcome: 'accepted'; readonly status: number; readonly body: unknown }
  | { readonly outcome: 'refused'; readonly code: string; readonly body: unknown }
  | { readonly outcome: 'unknown'; readonly why: string };

/** Each of these says that the server did nothing. */
const doneNothing: ReadonlySet<string> = new Set(['overloaded', 'rate_limited', 'closed']);
const answerMsMax = 15_000;
/** Longer than anything in this test stays away. */
const settleMsMax = 60_000;

export class Caller {
  readonly #url: string;
  readonly #send: typeof fetch;
  readonly #headers: Readonly<Record<string, string>>;
  /** Answers that no fault of another part excuses. */
  readonly broken: string[] = [];

  /**
   * Without a user it is the operator, who sees everything. `send` stands for what is between the client and
   * the servers.
   */
  constructor(url: string, token: string, user: string | null, send: typeof fetch = fetch) {
    this.#url = url;
    this.#send = send;
    this.#headers = { authorization: `Bearer ${token}`, ...(user !== null && { 'stoa-user': user }) };
  }

  async call({ method, path, body, headers }: Request): Promise<Reply> {
    try {
      const answer = await this.#send(this.#url + path, {
        method,
        headers: {
          ...this.#headers,
          ...(body !== undefined && { 'content-type': 'application/json' }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        signal: AbortSignal.timeout(answerMsMax),
      });
      return this.#judged(`${method} ${path}`, answer.status, await answer.text());
    } catch (error) {
      return { outcome: 'unknown', why: error instanceof Error ? error.message : String(error) };
    }
  }

  /**
   * With a key a repeat does the work once, so that an unknown outcome can be asked for again until it is
   * known.
   */
  async settle(request: Request, key: string): Promise<Reply> {
    const untilMs = Date.now() + settleMsMax;
    for (;;) {
      const reply = await this.call({ ...request, headers: { ...request.headers, 'idempotency-key': key } });
      const isOver =
        reply.outcome === 'accepted' || (reply.outcome === 'refused' && !doneNothing.has(reply.code));
      if (isOver || Date.now() > untilMs) return reply;
      await sleep(100);
    }
  }

  /** A read that goes on until it is answered. */
  async read(path: string): Promise<unknown> {
    const untilMs = Date.now() + settleMsMax;
    for (;;) {
      const reply = await this.call({ method: 'GET', path });
      if (reply.outcome === 'accepted') return reply.body;
      if (Date.now() > untilMs) throw new Error(`GET ${path}: ${JSON.stringify(reply)}`);
      await sleep(100);
    }
  }

  #judged(what: string, status: number, text: string): Reply {
    const body = parsed(text);
    if (status < 300) return { outcome: 'accepted', status, body };
    const code = stringIn(body, 'code') ?? `status ${status}`;
    // Whatever fails behind a server, it says so; an internal error is a fault of its own.
    if (status === 500) this.broken.push(`${what} was answered with 500: ${text.slice(0, 500)}`);
    if (status < 500 || doneNothing.has(code)) return { outcome: 'refused', code, body };
    return { outcome: 'unknown', why: code };
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The balancer answers in its own words.
    return text;
  }
}

export function stringIn(body: unknown, field: string): string | undefined {
  const value = fieldOf(body, field);
  return typeof value === 'string' ? value : undefined;
}

/** A field that has to be there. */
export function numberIn(body: unknown, field: string): number {
  const value = fieldOf(body, field);
  if (typeof value !== 'number')
    throw new Error(`The answer has no number "${field}": ${JSON.stringify(body)}`);
  return value;
}

export function textIn(body: unknown, field: string): string {
  const value = fieldOf(body, field);
  if (typeof value !== 'string')
    throw new Error(`The answer has no text "${field}": ${JSON.stringify(body)}`);
  return value;
}

export function fieldOf(body: unknown, field: string): unknown {
  return typeof body === 'object' && body !== null
    ? Object.entries(body).find(([name]) => name === field)?.[1]
    : undefined;
}

export function itemsIn(body: unknown, field = 'items'): unknown[] {
  const value = fieldOf(body, field);
  if (!Array.isArray(value)) throw new Error(`The answer has no list "${field}": ${JSON.stringify(body)}`);
  return value;
}
