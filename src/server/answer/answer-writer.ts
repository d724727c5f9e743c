/** Writes every answer: the shared headers, the bytes, and the metrics. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { Limits } from '../../core/settings/limits.js';
import type { Metrics } from '../telemetry/metrics.js';
import { AnswersOfTurn } from './answers-of-turn.js';

export const securityHeaders = {
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'strict-transport-security': 'max-age=31536000',
  'content-security-policy': "default-src 'none'; frame-ancestors 'none'",
} as const;

/** Headers that many answers share. */
export class SharedHeaders {
  /** Names and values in turn: the form that Node writes fastest. */
  readonly list: readonly string[];

  constructor(readonly fields: Readonly<Record<string, string>>) {
    this.list = Object.entries(fields).flat();
  }
}

/** The headers of an answer if its group declares no others. */
export const serverHeaders = new SharedHeaders(securityHeaders);

/**
 * The headers of JSON for programs: browsers must not guess another type, and must not render it. That
 * covers frames too; JSON has no links that could leak a referrer, and HSTS is set by the pages of a
 * host. Every header costs time on each answer.
 */
const { 'x-content-type-options': sniffing, 'content-security-policy': policy } = securityHeaders;
export const apiHeaders = new SharedHeaders({
  'x-content-type-options': sniffing,
  'content-security-policy': policy,
});

export interface TextOptions {
  shared: SharedHeaders;
  etag?: string | undefined;
  /** The reply may have other headers. Collecting them costs as much as writing them. */
  hasHeaders: boolean;
}

export class AnswerWriter {
  readonly #metrics: Metrics;
  readonly #logger: Logger;
  readonly #isVerbose: boolean;
  readonly #answers: AnswersOfTurn;
  readonly #isStopping: () => boolean;

  constructor(limits: Limits, metrics: Metrics, logger: Logger, isStopping: () => boolean) {
    this.#answers = new AnswersOfTurn(limits);
    this.#metrics = metrics;
    this.#isStopping = isStopping;
    this.#logger = logger;
    this.#isVerbose = logger.isLevelEnabled('debug');
  }

  /** Sets the headers of every answer. A handler can override them later. */
  stamp(request: FastifyRequest, reply: FastifyReply, shared: SharedHeaders): void {
    void reply.headers({ 'request-id': request.id, ...shared.fields });
    if (this.#isStopping()) void reply.header('connection', 'close');
  }

  /**
   * Sends text in one write with its headers, at the end of the turn. Fastify's send parses the content type
   * again and waits for the end of each answer, which costs as much as reading a record.
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
    // An open connection would delay the stop until the connection times out.
    if (this.#isStopping()) own.push('connection', 'close');
    const head = hasHeaders ? withGiven(own, reply.getHeaders(), shared) : own.concat(shared.list);
    void reply.hijack();
    // Throws if a header is invalid, so it does not wait.
    reply.raw.writeHead(status, head);
    this.#answers.end(reply.raw, body, sizeBytes);
    this.note(request, status);
  }

  /** Counts an answer in the metrics. */
  note(request: FastifyRequest, status: number): void {
    const route = request.matchedPath ?? 'none';
    const ms = performance.now() - request.startedMs;
    this.#metrics.answered(request.method, route, status, ms);
    if (this.#isVerbose)
      this.#logger.debug({ request: request.id, method: request.method, route, status, ms }, 'answered');
  }
}

/** The headers of this answer, those set on the reply, and the shared ones, in this order of precedence. */
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
