/** Pages of other sites that may call /v1 and /mcp: what a browser asks before it lets them. Messaging is open to all, by rules of its own. */
import type { FastifyInstance } from 'fastify';

const preflight = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers':
    'Accept, Authorization, Content-Type, Content-Digest, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id, Signature, Signature-Input, Stoa-Agent, Stoa-Fence, Stoa-User',
  'access-control-max-age': '600',
} as const;
const exposed = 'ETag, Mcp-Session-Id, RateLimit, RateLimit-Policy, Request-Id, Retry-After, Stoa-Position';
const guarded = /^\/(v1|mcp)([/?]|$)/;

/** Of answers outside /v1 and /mcp: nothing in them depends on who asks. */
export const openToAllSites = { 'access-control-allow-origin': '*' } as const;

/** Whether only the sites that are named may read what is at that URL. */
export function isGuarded(url: string): boolean {
  return guarded.test(url);
}

/** Without origins there is nothing to do, so nothing is done for any request. */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const allowed = new Set(origins.map((origin) => origin.toLowerCase()));
  app.addHook('onRequest', (request, reply, done) => {
    if (!isGuarded(request.url)) return done();
    // What is kept of one origin's answer must not be shown to another.
    reply.raw.setHeader('vary', 'Origin');
    const { origin } = request.headers;
    if (origin === undefined || !allowed.has(origin.toLowerCase())) return done();
    // On the raw answer, since not every answer of ours goes through Fastify.
    reply.raw.setHeader('access-control-allow-origin', origin);
    reply.raw.setHeader('access-control-expose-headers', exposed);
    if (request.method !== 'OPTIONS') return done();
    void reply
      .code(204)
      .headers({ 'request-id': request.id, ...preflight })
      .send();
  });
}
