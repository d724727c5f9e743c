/**
 * CORS for pages of other sites that may call /v1 and /mcp. Messaging is open to all sites, by its own rules.
 */
import type { FastifyInstance } from 'fastify';

const preflight = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers':
    'Accept, Authorization, Content-Type, Content-Digest, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, Mcp-Protocol-Version, Mcp-Session-Id, Signature, Signature-Input, Stoa-Agent, Stoa-Fence, Stoa-User',
  'access-control-max-age': '600',
} as const;
const exposed = 'ETag, Mcp-Session-Id, RateLimit, RateLimit-Policy, Request-Id, Retry-After, Stoa-Position';
const guarded = /^\/(v1|mcp)([/?]|$)/;

/** For answers outside /v1 and /mcp: they do not depend on the site that asks. */
export const openToAllSites = { 'access-control-allow-origin': '*' } as const;

/** Whether only configured sites may read the URL. */
export function isGuarded(url: string): boolean {
  return guarded.test(url);
}

/** Without origins no hook is added. */
export function allowOrigins(app: FastifyInstance, origins: readonly string[]): void {
  if (origins.length === 0) return;
  const allowed = new Set(origins.map((origin) => origin.toLowerCase()));
  app.addHook('onRequest', (request, reply, done) => {
    if (!isGuarded(request.url)) return done();
    // A cache must not serve the answer for one origin to another.
    reply.raw.setHeader('vary', 'Origin');
    const { origin } = request.headers;
    if (origin === undefined || !allowed.has(origin.toLowerCase())) return done();
    // Set on the raw answer, because some answers do not go through Fastify.
    reply.raw.setHeader('access-control-allow-origin', origin);
    reply.raw.setHeader('access-control-expose-headers', exposed);
    if (request.method !== 'OPTIONS') return done();
    void reply
      .code(204)
      .headers({ 'request-id': request.id, ...preflight })
      .send();
  });
}
