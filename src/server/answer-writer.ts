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

/** Names and values by turns: the form that Node writes without looking at each twice. */
const securityList: readonly string[] = Object.entries(securityHeaders).flat();

export interface TextOptions {
  etag?: string | undefined;
  /** The reply has headers of its own: to collect them costs as much as to write them, so only where there are some. */
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
  stamp(request: FastifyRequest, reply: FastifyReply): void {
    void reply.headers({ 'request-id': request.id, ...securityHeaders });
    if (this.#isStopping()) void reply.header('connection', 'close');
  }

  /**
   * Sends text straight to the socket, in one write with its headers: Fastify's own way looks at the
   * content type anew and waits for the end of each answer, which costs as much as reading a record.
   */
  text(request: FastifyRequest, reply: FastifyReply, status: number, contentType: string, body: string, { etag, hasHeaders }: TextOptions): void {
    const sizeBytes = Buffer.byteLength(body);
    const own = ['request-id', request.id, 'content-type', contentType, 'content-length', String(sizeBytes)];
    if (etag !== undefined) own.push('etag', etag);
    // Kept open, the connection would hold up the stop until it times out.
    if (this.#isStopping()) own.push('connection', 'close');
    const head = own.concat(hasHeaders ? listOf({ ...securityHeaders, ...reply.getHeaders() }, own) : securityList);
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
    if (this.#isVerbose) this.#logger.debug({ request: request.id, method: request.method, route, status, ms }, 'answered');
  }
}

/** Headers that a handler set, by turns as well, but for those that are in `taken`. */
function listOf(headers: Readonly<Record<string, string | number | readonly string[] | undefined>>, taken: readonly string[]): string[] {
  return Object.entries(headers).flatMap(([name, value]) => {
    if (value === undefined || taken.includes(name)) return [];
    return Array.isArray(value) ? value.flatMap((each: string) => [name, each]) : [name, String(value)];
  });
}
