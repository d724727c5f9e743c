/**
 * Which web pages may call the server: its own and those of the origins in `cors_origin`. Browsers send
 * Origin; other programs usually send none and are not concerned.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { StoaError } from '../../core/errors.js';

const preflight = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers':
    'Accept, Authorization, Content-Type, Content-Digest, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id, Signature, Signature-Input, Stoa-Agent, Stoa-Fence, Stoa-User, X-AICQ-Agent, X-AICQ-Nonce, X-AICQ-Room-Key, X-AICQ-Signature, X-AICQ-Timestamp',
  'access-control-max-age': '600',
} as const;
const exposed =
  'ETag, Mcp-Session-Id, RateLimit, RateLimit-Policy, Request-Id, Retry-After, Stoa-Position, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset';
const defaultPorts: Readonly<Record<string, string>> = { http: ':80', https: ':443' };

export class Origins {
  readonly #named: ReadonlySet<string>;

  constructor(named: readonly string[] = []) {
    this.#named = new Set(named.map((origin) => origin.toLowerCase()));
  }

  /** Refuses a page of another site. A page of a named origin may read the answer. */
  admit(request: FastifyRequest, { raw }: FastifyReply): void {
    // A cache must not serve the answer for one origin to another. Set on the raw answer, because some
    // answers do not go through Fastify.
    if (this.#named.size > 0) raw.setHeader('vary', 'Origin');
    const { origin, host } = request.headers;
    if (origin === undefined) return;
    if (this.#named.has(origin.toLowerCase())) {
      raw.setHeader('access-control-allow-origin', origin);
      raw.setHeader('access-control-expose-headers', exposed);
    } else if (!isOwn(origin, host)) {
      throw new StoaError(
        'origin_refused',
        `The Origin "${origin.slice(0, 100)}" is another site, and this server does not accept requests from its pages.`,
        {
          fix: 'To accept them, start the server with --cors-origin and this origin. A program that is not a web page sends no Origin.',
        },
      );
    }
  }

  /** Answers the question that a browser asks before a request of a named origin; false: it was not one. */
  answerPreflight(request: FastifyRequest, reply: FastifyReply): boolean {
    const { origin } = request.headers;
    if (request.method !== 'OPTIONS' || origin === undefined || !this.#named.has(origin.toLowerCase()))
      return false;
    void reply
      .code(204)
      .headers({ 'request-id': request.id, ...preflight })
      .send();
    return true;
  }
}

/** Whether the page came from the host that the request names. A proxy may have removed TLS. */
function isOwn(origin: string, host = ''): boolean {
  const [, scheme = '', from] = /^(https?):\/\/(.+)$/i.exec(origin) ?? [];
  if (from === undefined) return false;
  const port = defaultPorts[scheme.toLowerCase()] ?? '';
  return withoutPort(from, port) === withoutPort(host, port);
}

function withoutPort(host: string, port: string): string {
  const lower = host.toLowerCase();
  return lower.endsWith(port) ? lower.slice(0, -port.length) : lower;
}
