/**
 * The HTTP server: all route groups on one Fastify, one error handler, and a stop that finishes running
 * requests.
 */
import { randomBytes } from 'node:crypto';
import type { ServerOptions as HttpsOptions } from 'node:https';
import type { Socket } from 'node:net';
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import { StoaError } from '../core/errors.js';
import type { ConfigRow } from '../core/settings/config.js';
import type { Stoa } from '../index.js';
import { type Authenticator, bearerAuthenticator } from './request/authentication.js';
import { AnswerWriter, serverHeaders } from './answer/answer-writer.js';
import { clientErrorAnswer } from './answer/client-error.js';
import { EndOfTurn } from './request/end-of-turn.js';
import { EventStreams } from './answer/event-stream.js';
import { SpooledBodies } from './request/spooled-body.js';
import type { RouteGroup } from './group.js';
import { HostCheck, requireHost } from './request/host-check.js';
import { LastSeen } from './request/last-seen.js';
import { Origins } from './request/origins.js';
import { silentLogger } from './telemetry/log.js';
import { type DroppedLines, Metrics } from './telemetry/metrics.js';
import { OpenApiTexts } from './openapi/texts.js';
import { measureOutbox } from './telemetry/outbox-metrics.js';
import { measureVectors } from './telemetry/vector-metrics.js';
import { type PipelineServices, addRoute, refuseWhileStopping } from './pipeline.js';
import { bodyTooLarge, isBodyTooLarge, problemOf, stoaErrorOf } from './answer/problem.js';
import { RateLimit } from './request/rate-limit.js';
import type { Route } from './route.js';
import { routeGroups } from './routes/index.js';
import { signatureAuthenticator } from './routes/messaging/gate.js';
import { type OpenTelemetry, addTracing } from './telemetry/tracing.js';
import { badPath } from './request/url-encoding.js';

export interface AppOptions {
  /** The address that the server binds to. Its name is accepted as Host. */
  host?: string;
  /** Further host names that requests may use. */
  allowedHosts?: readonly string[];
  /** Other sites whose pages may call the server. */
  corsOrigin?: readonly string[];
  /** Authenticators besides the one for bearer tokens. */
  authenticators?: readonly Authenticator[];
  /** The default is all route groups; tests pass others. */
  groups?: readonly RouteGroup[];
  logger?: Logger;
  /** The log destination, which counts dropped lines. */
  log?: DroppedLines;
  /** The settings that the server was started with, for the operator. */
  settings?: readonly ConfigRow[];
  /** Whether /metrics requires a token. */
  metricsNeedToken?: boolean;
  /** Addresses of proxies whose X-Forwarded-For is trusted. */
  trustedProxies?: readonly string[];
  tls?: HttpsOptions;
  /** Makes a span of each request. */
  tracing?: OpenTelemetry | undefined;
}

declare module 'fastify' {
  interface FastifyInstance {
    stoaServer: AppServices;
  }
}

/** What routes about the server itself need. */
interface AppServices {
  readonly stoa: Stoa;
  readonly groups: readonly RouteGroup[];
  readonly routes: readonly Route[];
  readonly streams: EventStreams;
  readonly metrics: Metrics;
  readonly spool: SpooledBodies;
  readonly metricsNeedToken: boolean;
  readonly hostCheck: HostCheck;
  readonly settings: readonly ConfigRow[];
  readonly startedAtMs: number;
  readonly openApi: OpenApiTexts;
  /** True after a stop has begun. */
  isStopping(): boolean;
  /** The callback runs when a stop begins; the stop waits for it. */
  onStop(callback: () => Promise<void>): void;
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

/** Makes the server; `listen` on the result binds it, `stopApp` ends it. */
export function createApp(stoa: Stoa, options: AppOptions = {}): FastifyInstance {
  const { limits } = stoa;
  const groups = options.groups ?? routeGroups;
  const logger = options.logger ?? silentLogger();
  const streams = new EventStreams(limits, (caller) => stoa.identity.isLive(caller));
  stoa.identity.onOperatorReplaced(() => streams.endOf(({ kind }) => kind === 'operator'));
  const metrics = new Metrics(stoa, streams, options.log);
  measureOutbox(metrics.registry, stoa);
  measureVectors(metrics.registry, stoa);
  let stopping = false;
  const isStopping = () => stopping;
  const writer = new AnswerWriter(metrics, logger, isStopping);
  const routes = groups.flatMap((group) => group.routes);
  const origins = new Origins(options.corsOrigin);
  const hostCheck = new HostCheck(options.host ?? '127.0.0.1', options.allowedHosts);
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
    bodyLimit: limits.bodyBytesMax,
    requestTimeout: limits.requestSecondsMax * 1_000,
    forceCloseConnections: 'idle',
    // Requests that arrive during a stop are answered by the pipeline.
    return503OnClosing: false,
    routerOptions: { maxParamLength: limits.pathSegmentCharactersMax },
    trustProxy:
      options.trustedProxies === undefined || options.trustedProxies.length === 0
        ? false
        : [...options.trustedProxies],
    clientErrorHandler: clientErrorAnswer(limits),
    frameworkErrors: (error, request, reply) => {
      request.startedMs = performance.now();
      let reason: unknown = error.code === 'FST_ERR_BAD_URL' ? badPath(request.url, error) : error;
      try {
        origins.admit(request, reply);
      } catch (refusal) {
        reason = refusal;
      }
      return answerError(reason, request, reply);
    },
    ...(options.tls === undefined
      ? { http: serverOptions }
      : { https: { ...options.tls, ...serverOptions } }),
  }) as FastifyInstance; // Fastify has different types with and without TLS; this code uses what both have.
  const stops: (() => Promise<void>)[] = [];
  app.decorate('stoaServer', {
    stoa,
    groups,
    routes,
    streams,
    metrics,
    spool: new SpooledBodies(limits),
    metricsNeedToken: options.metricsNeedToken === true,
    hostCheck,
    settings: options.settings ?? [],
    startedAtMs: Date.now(),
    openApi: new OpenApiTexts(groups),
    isStopping,
    onStop: (callback) => stops.push(callback),
  });
  app.decorateRequest('caller', null);
  // Assigned by the pipeline before any handler runs.
  app.decorateRequest('rawBody');
  app.decorateRequest('callerAddress', null);
  app.decorateRequest('startedMs', 0);
  app.decorateRequest('matchedPath', undefined);

  const groupOf = (request: FastifyRequest): RouteGroup | undefined => {
    const { config } = request.routeOptions;
    return config.group ?? groups.find((group) => group.owns?.(pathOf(request)) === true);
  };
  const answerError = (thrown: unknown, request: FastifyRequest, reply: FastifyReply): unknown => {
    const error = isBodyTooLarge(thrown)
      ? bodyTooLarge(request.routeOptions.config.route?.bodyLimit ?? 'bodyBytesMax', limits)
      : stoaErrorOf(thrown);
    // A request that ended because of the stop is not a fault.
    if (error.status >= 500 && error.code !== 'closed')
      logger[error.code === 'internal' ? 'error' : 'warn'](
        { err: error.cause ?? error, code: error.code, request: request.id, route: request.routeOptions.url },
        error.message,
      );
    const group = groupOf(request);
    if (group?.onError !== undefined)
      return group
        .onError(error, request, reply)
        .catch((failure: unknown) => stoa.onError(failure, 'counting a refused request'))
        .then(() => writeProblem(writer, error, request, reply));
    const writeError = group?.writeError;
    if (writeError === undefined) return writeProblem(writer, error, request, reply);
    writer.stamp(request, reply, serverHeaders);
    writer.note(request, error.status);
    return writeError(error, request, reply);
  };

  // Bodies stay bytes until the route is known, because signatures and idempotency use the bytes.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  // A body of JSON lines can be larger than memory; only a route that reads a stream accepts it.
  app.addContentTypeParser('application/x-ndjson', (request, payload, done) => {
    if (request.routeOptions.config.route?.streamsBody === true) done(null, payload);
    else
      done(
        new StoaError('unsupported_media_type', 'This route does not accept application/x-ndjson.', {
          fix: 'Send application/json.',
        }),
      );
  });
  // Above a number of headers Node drops the rest silently, possibly a precondition or the address that a
  // proxy adds last.
  app.server.maxHeadersCount = 0;
  // Only "100-continue" has a meaning. Node would refuse any other Expect header without a reason and a
  // Request-Id.
  app.server.on('checkExpectation', (request, response) => app.server.emit('request', request, response));
  const connections = new Set<Socket>();
  app.server.on('connection', (socket: Socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });
  app.addHook('preClose', async () => {
    stopping = true;
    streams.stop();
    stoa.workspaces.stopWaiting();
    stoa.messaging.hub.stopWaiting();
    // Node counts a connection without a request as busy and would wait for it.
    for (const socket of connections) if (socket.bytesRead === 0) socket.destroy();
    await Promise.all(stops.map((stop) => stop()));
  });
  if (stoa.messaging.port.capabilities.sharedStore) endChangedStreams(app, stoa, streams);
  app.setErrorHandler(answerError);
  const matchers = routes.map((route) => ({ route, pattern: patternOf(route.path) }));
  app.setNotFoundHandler(async (request, reply) => {
    request.startedMs = performance.now();
    refuseWhileStopping(services);
    requireHost(request);
    origins.admit(request, reply);
    if (origins.answerPreflight(request, reply)) return reply;
    await groupOf(request)?.onRequest?.(request, reply);
    if (reply.sent) return reply;
    const allowed = matchers
      .filter(({ pattern }) => pattern.test(pathOf(request)))
      .map(({ route }) => route.method);
    return answerError(unknownRoute(request, reply, allowed), request, reply);
  });

  const { requestsPerMinuteMax } = limits;
  const services: PipelineServices = {
    stoa,
    streams,
    authenticators: [
      bearerAuthenticator(stoa.identity),
      signatureAuthenticator,
      ...(options.authenticators ?? []),
    ],
    hostCheck,
    origins,
    rateLimit:
      requestsPerMinuteMax > 0 ? new RateLimit(requestsPerMinuteMax, stoa.home.requestRates) : undefined,
    lastSeen: new LastSeen(stoa),
    writer,
    endOfTurn: new EndOfTurn(),
    isStopping,
  };
  if (options.tracing !== undefined) addTracing(app, stoa, options.tracing);
  for (const group of groups) for (const route of group.routes) addRoute(app, route, group, services);
  return app;
}

/** Ends the streams of identities that another server of the same store has changed. */
function endChangedStreams(
  app: FastifyInstance,
  { messaging: { port }, limits, onError }: Stoa,
  streams: EventStreams,
): void {
  const check = (only?: string) =>
    streams
      .endOfChanged((ids) => port.identities(ids), only)
      .catch((error: unknown) => onError(error, 'checking whether open streams are still allowed'));
  const stopListening = port.subscribe((notice) => {
    if (notice.topic === 'identity') void check(notice.id);
  });
  // Notifications can be lost, so the streams are also checked at intervals.
  const checking = setInterval(() => void check(), limits.streamHeartbeatSeconds * 1_000);
  checking.unref();
  app.addHook('onClose', async () => {
    stopListening();
    clearInterval(checking);
  });
}

/**
 * Stops accepting requests, ends streams, waits for running requests within the limit, then closes all
 * connections.
 */
export async function stopApp(app: FastifyInstance, secondsMax: number): Promise<void> {
  const force = setTimeout(() => app.server.closeAllConnections(), secondsMax * 1_000);
  try {
    await app.close();
  } finally {
    clearTimeout(force);
  }
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

function writeProblem(
  writer: AnswerWriter,
  error: StoaError,
  request: FastifyRequest,
  reply: FastifyReply,
): void {
  if (error.code === 'unauthenticated') void reply.header('www-authenticate', 'Bearer realm="stoa"');
  if (error.status === 503 && !reply.hasHeader('retry-after')) void reply.header('retry-after', '1');
  writer.text(
    request,
    reply,
    error.status,
    'application/problem+json; charset=utf-8',
    JSON.stringify(problemOf(error, request.id)),
    { shared: serverHeaders, hasHeaders: true },
  );
}

function pathOf(request: FastifyRequest): string {
  return request.url.split('?', 1)[0] as string;
}

/** Matches one path segment for each parameter, as the router does. */
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}

function unknownRoute(request: FastifyRequest, reply: FastifyReply, allowed: readonly string[]): StoaError {
  const path = pathOf(request).slice(0, 200);
  if (allowed.length === 0)
    return new StoaError('not_found', `Unknown path ${path}.`, {
      fix: 'GET /openapi.json lists every route.',
    });
  const methods = [...new Set(allowed.includes('GET') ? [...allowed, 'HEAD'] : allowed)];
  void reply.header('allow', methods.join(', '));
  return new StoaError('method_not_allowed', `${path} does not support ${request.method}.`, {
    fix: `Use ${methods.join(', ')}.`,
    details: { allowed: methods },
  });
}
