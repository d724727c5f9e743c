/** The last step of every answer: headers that all share, the bytes, and the count of it. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Metrics } from './metrics.js';

export const securityHeaders = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'strict-transport-security': 'max-age=31536000',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
} as const;

/** Headers that many answers share. */
export class SharedHeaders {
  /** Names and values by turns: the form that Node writes without looking at each twice. */
  readonly list: readonly string[];

  constructor(readonly fields: Readonly<Record<string, string>>) {
    this.list = Object.entries(fields).flat();
  }
}

/** What an answer carries whose group says nothing else. */
export const serverHeaders = new SharedHeaders(securityHeaders);

/**
 * What JSON for programs carries: never taken for something else, and nothing at all if a browser is
 * made to show it. That covers frames too; it has no links that could tell where one came from, and
 * whether a name is served over TLS only is for its pages to say. Every header costs each answer time.
 */
const { 'x-content-type-options': sniffing, 'content-security-policy': policy } = securityHeaders;
export const apiHeaders = new SharedHeaders({
  'x-content-type-options': sniffing,
  'content-security-policy': policy,
});

export interface TextOptions {
  shared: SharedHeaders;
  etag?: string | undefined;
  /** The reply may have headers of its own: to collect them costs as much as to write them. */
  hasHeaders: boolean;
}

export class AnswerWriter {
  readonly #metrics: Metrics;
  readonly #logger: Logger;
  readonly #isVerbose: boolean;

  readonly #isStopping: () => boolean;

  constructor(metrics: Metrics, logger: Logger, isStopping: () => boolean) {
    this.#metrics = metrics;
    this.#isStopping = isStopping;
    this.#logger = logger;
    this.#isVerbose = logger.isLevelEnabled('debug');
  }

  /** Sets what every answer carries; what a handler sets afterwards wins. */
  stamp(request: FastifyRequest, reply: FastifyReply, shared: SharedHeaders): void {
    void reply.headers({ 'request-id': request.id, ...shared.fields });
    if (this.#isStopping()) void reply.header('connection', 'close');
  }

  /**
   * Sends text straight to the socket, in one write with its headers: Fastify's own way looks at the
   * content type anew and waits for the end of each answer, which costs as much as reading a record.
   */
  text(
    request: FastifyRequest,
    reply: FastifyReply,
    status: number,
    contentType: string,
    body: string,
    { shared, etag, hasHeaders }: TextOptions,
  ): void {
    const sizeBytes = Buffer.byteLength(body);
    const own = ['request-id', request.id, 'content-type', contentType, 'content-length', String(sizeBytes)];
    if (etag !== undefined) own.push('etag', etag);
    // Kept open, the connection would hold up the stop until it times out.
    if (this.#isStopping()) own.push('connection', 'close');
    const head = hasHeaders ? withGiven(own, reply.getHeaders(), shared) : own.concat(shared.list);
    void reply.hijack();
    reply.raw.writeHead(status, head);
    // As many bytes as characters: it is ASCII, which Node need not translate.
    reply.raw.end(body, sizeBytes === body.length ? 'latin1' : 'utf8');
    this.note(request, status);
  }

  /** Counts an answer that was or will be sent. */
  note(request: FastifyRequest, status: number): void {
    const route = request.matchedPath ?? 'none';
    const ms = performance.now() - request.startedMs;
    this.#metrics.answered(request.method, route, status, ms);
    if (this.#isVerbose)
      this.#logger.debug({ request: request.id, method: request.method, route, status, ms }, 'answered');
  }
}

/** The answer's own headers, those that were set on the reply, and the shared ones, in this order of precedence. */
function withGiven(
  own: readonly string[],
  given: Readonly<Record<string, string | number | readonly string[] | undefined>>,
  { fields, list }: SharedHeaders,
): string[] {
  const head = [...own];
  let overrides = false;
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || isAmong(own, name)) continue;
    overrides ||= Object.hasOwn(fields, name);
    if (Array.isArray(value)) head.push(...value.flatMap((each: string) => [name, each]));
    else head.push(name, String(value));
  }
  return head.concat(
    overrides
      ? Object.entries(fields).flatMap(([name, value]) => (Object.hasOwn(given, name) ? [] : [name, value]))
      : list,
  );
}

function isAmong(list: readonly string[], name: string): boolean {
  for (let at = 0; at < list.length; at += 2) if (list[at] === name) return true;
  return false;
}
