/** Fastify as this server needs it: its limits, bodies as bytes, and no answers of its own. */
import { randomBytes } from 'node:crypto';
import type { ServerOptions as HttpsOptions } from 'node:https';
import Fastify, {
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';
import { clientErrorAnswer } from './answer/client-error.js';

export interface FastifyOptions {
  readonly limits: Limits;
  readonly trustedProxies: readonly string[];
  readonly tls: HttpsOptions | undefined;
  /** Answers requests that Fastify refuses before a route is found. */
  readonly onFrameworkError: (error: FastifyError, request: FastifyRequest, reply: FastifyReply) => unknown;
}

/**
 * Routes validate with zod and write JSON themselves. Without these, Fastify would load its JSON schema
 * compilers, which takes a sixth of the time until the first answer.
 */
const noCompilers = { buildValidator: noSchema, buildSerializer: noSchema };

function noSchema(): never {
  throw new StoaError('internal', 'A route has a JSON schema. Use a zod schema instead.');
}

const lateLookSecondsMax = 30;

export function openFastify({
  limits,
  trustedProxies,
  tls,
  onFrameworkError,
}: FastifyOptions): FastifyInstance {
  // Node would answer a request without Host itself, without a reason. Node takes the first of two Host or
  // Authorization headers, and a proxy may take the second. Joined headers are invalid, so such a request is
  // refused.
  const serverOptions = {
    maxHeaderSize: limits.headerBytesMax,
    requireHostHeader: false,
    joinDuplicateHeaders: true,
    // How often Node checks for slow requests. Its default of 30 seconds would be added to a short limit.
    connectionsCheckingInterval: Math.min(limits.requestSecondsMax, lateLookSecondsMax) * 1_000,
  };
  const app = Fastify({
    schemaController: { compilersFactory: noCompilers },
    genReqId: requestIds(),
    // Of unknown paths: each route has its own limit.
    bodyLimit: 1,
    requestTimeout: limits.requestSecondsMax * 1_000,
    forceCloseConnections: 'idle',
    // Requests that arrive during a stop are answered by the pipeline.
    return503OnClosing: false,
    // Each route of a GET takes HEAD too (`pipeline.ts`). Fastify would make a second route of each of them.
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: limits.pathSegmentCharactersMax },
    trustProxy: trustedProxies.length === 0 ? false : [...trustedProxies],
    clientErrorHandler: clientErrorAnswer(limits),
    frameworkErrors: onFrameworkError,
    ...(tls === undefined ? { http: serverOptions } : { https: { ...tls, ...serverOptions } }),
  }) as FastifyInstance; // Fastify has different types with and without TLS; this code uses what both have.
  // Above a number of headers Node drops the rest silently, possibly a precondition or the address that a
  // proxy adds last.
  app.server.maxHeadersCount = 0;
  // Only "100-continue" has a meaning. Node would refuse any other Expect header without a reason and a
  // Request-Id.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  decorateRequests(app);
  readBodiesAsBytes(app);
  return app;
}

function decorateRequests(app: FastifyInstance): void {
  app.decorateRequest('caller', null);
  // Assigned by the pipeline before any handler runs.
  app.decorateRequest('rawBody');
  app.decorateRequest('callerAddress', null);
  app.decorateRequest('startedMs', 0);
  app.decorateRequest('matchedPath', undefined);
}

/** Bodies stay bytes until the route is known, because signatures and idempotency use the bytes. */
function readBodiesAsBytes(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  // A body of JSON lines can be larger than memory; only a route that reads a stream accepts it.
  app.addContentTypeParser('application/x-ndjson', (request, payload, done) => {
    if (request.routeOptions.config.route?.upload === true) done(null, payload);
    else
      done(
        new StoaError('unsupported_media_type', 'This route does not accept application/x-ndjson.', {
          fix: 'Send application/json.',
        }),
      );
  });
}

/** Short ids that are unique across restarts: a random prefix for the process and a counter. */
function requestIds(): () => string {
  const prefix = randomBytes(6).toString('hex');
  let count = 0;
  return () => {
    count += 1;
    return `${prefix}-${count.toString(36)}`;
  };
}
