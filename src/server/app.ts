/**
 * The HTTP server: all route groups on one Fastify, one error handler, and a stop that finishes running
 * requests.
 */
import type { ServerOptions as HttpsOptions } from 'node:https';
import type { Socket } from 'node:net';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Logger } from 'pino';
import type { ConfigRow } from '../core/settings/config.js';
import { Periodic } from '../core/waiting/periodic.js';
import { TurnTime } from '../core/waiting/turn-time.js';
import type { Stoa } from '../index.js';
import { type Authenticator, bearerAuthenticator } from './request/authentication.js';
import { AnswerWriter } from './answer/answer-writer.js';
import { ErrorAnswers } from './answer/error-answers.js';
import { isBodyTooLarge } from './answer/problem.js';
import { BodiesInMemory } from './request/bodies-in-memory.js';
import { EndOfTurn } from './request/end-of-turn.js';
import { EventStreams } from './answer/event-stream.js';
import { openFastify } from './fastify.js';
import { SpooledBodies } from './request/spooled-body.js';
import type { RouteGroup } from './group.js';
import { HostCheck, requireHost } from './request/host-check.js';
import { LastSeen } from './request/last-seen.js';
import { Origins } from './request/origins.js';
import { silentLogger } from './telemetry/log.js';
import { type DroppedLines, Metrics } from './telemetry/metrics.js';
import { OpenApiTexts } from './openapi/texts.js';
import { PipelinedRequests } from './request/pipelined.js';
import { type PipelineServices, addRoute, refuseWhileStopping } from './pipeline.js';
import { RateLimit } from './request/rate-limit.js';
import type { Route } from './route.js';
import { routeGroups } from './routes/index.js';
import { signatureAuthenticator } from './routes/messaging/gate.js';
import { type OpenTelemetry, addTracing } from './telemetry/tracing.js';
import { UnknownRoutes } from './unknown-routes.js';
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

/** Makes the server; `listen` on the result binds it, `stopApp` ends it. */
export function createApp(stoa: Stoa, options: AppOptions = {}): FastifyInstance {
  const { limits } = stoa;
  const groups = options.groups ?? routeGroups;
  const routes = groups.flatMap((group) => group.routes);
  const logger = options.logger ?? silentLogger();
  const streams = new EventStreams(limits, (caller) => stoa.identity.isLive(caller));
  stoa.identity.onOperatorReplaced(() => streams.endOf(({ kind }) => kind === 'operator'));
  const metrics = new Metrics(stoa, streams, options.log);
  const stop = new Stop(stoa, streams);
  const writer = new AnswerWriter(limits, metrics, logger, stop.isBegun);
  const errors = new ErrorAnswers({ stoa, groups, logger, writer });
  const services = servicesOf(stoa, options, { streams, writer, isStopping: stop.isBegun });
  const app = openFastify({
    limits,
    trustedProxies: options.trustedProxies ?? [],
    tls: options.tls,
    onFrameworkError: (error, request, reply) => {
      request.startedMs = performance.now();
      let reason: unknown = error.code === 'FST_ERR_BAD_URL' ? badPath(request.url, error) : error;
      try {
        services.origins.admit(request, reply);
      } catch (refusal) {
        reason = refusal;
      }
      return errors.answer(reason, request, reply);
    },
  });
  app.decorate('stoaServer', {
    stoa,
    groups,
    routes,
    streams,
    metrics,
    spool: new SpooledBodies(limits),
    metricsNeedToken: options.metricsNeedToken === true,
    hostCheck: services.hostCheck,
    settings: options.settings ?? [],
    startedAtMs: Date.now(),
    openApi: new OpenApiTexts(groups),
    isStopping: stop.isBegun,
    onStop: (callback) => stop.add(callback),
  });
  stop.follow(app);
  if (stoa.messaging.port.capabilities.sharedStore) endChangedStreams(app, stoa, streams);
  answerErrors(app, errors, answerUnknownRoutes(app, routes, errors, services));
  if (options.tracing !== undefined) addTracing(app, stoa, options.tracing);
  for (const group of groups) for (const route of group.routes) addRoute(app, route, group, services);
  return app;
}

type UnknownRouteHandler = (request: FastifyRequest, reply: FastifyReply) => Promise<unknown>;

/** What the steps of every request need. */
function servicesOf(
  stoa: Stoa,
  options: AppOptions,
  shared: Pick<PipelineServices, 'streams' | 'writer' | 'isStopping'>,
): PipelineServices {
  const { limits } = stoa;
  return {
    stoa,
    ...shared,
    authenticators: [
      bearerAuthenticator(stoa.identity),
      signatureAuthenticator,
      ...(options.authenticators ?? []),
    ],
    hostCheck: new HostCheck(options.host ?? '127.0.0.1', options.allowedHosts),
    origins: new Origins(options.corsOrigin),
    rateLimit:
      limits.requestsPerMinuteMax > 0
        ? new RateLimit(limits.requestsPerMinuteMax, stoa.home.requestRates)
        : undefined,
    lastSeen: new LastSeen(stoa),
    endOfTurn: new EndOfTurn(),
    pipelined: new PipelinedRequests(limits),
    bodies: new BodiesInMemory(limits),
    reads: new TurnTime(),
  };
}

function answerUnknownRoutes(
  app: FastifyInstance,
  routes: readonly Route[],
  errors: ErrorAnswers,
  services: PipelineServices,
): UnknownRouteHandler {
  const unknown = new UnknownRoutes(routes);
  const answer: UnknownRouteHandler = async (request, reply) => {
    request.startedMs = performance.now();
    refuseWhileStopping(services);
    requireHost(request);
    services.origins.admit(request, reply);
    if (services.origins.answerPreflight(request, reply)) return reply;
    await errors.groupOf(request)?.onRequest?.(request, reply);
    if (reply.sent) return reply;
    return errors.answer(unknown.errorOf(request, reply), request, reply);
  };
  app.setNotFoundHandler(answer);
  return answer;
}

/** Fastify reads no body of an unknown path. The client gets the same answer as without a body. */
function answerErrors(app: FastifyInstance, errors: ErrorAnswers, answerUnknown: UnknownRouteHandler): void {
  app.setErrorHandler((error, request, reply) =>
    request.is404 && isBodyTooLarge(error)
      ? answerUnknown(request, reply)
      : errors.answer(error, request, reply),
  );
}

/** The beginning of a stop: streams and waiting requests end, then Fastify waits for the others. */
class Stop {
  readonly #stoa: Stoa;
  readonly #streams: EventStreams;
  readonly #connections = new Set<Socket>();
  readonly #callbacks: (() => Promise<void>)[] = [];
  #begun = false;

  constructor(stoa: Stoa, streams: EventStreams) {
    this.#stoa = stoa;
    this.#streams = streams;
  }

  readonly isBegun = (): boolean => this.#begun;

  add(callback: () => Promise<void>): void {
    this.#callbacks.push(callback);
  }

  follow(app: FastifyInstance): void {
    app.server.on('connection', (socket: Socket) => {
      this.#connections.add(socket);
      socket.once('close', () => this.#connections.delete(socket));
    });
    app.addHook('preClose', () => this.#begin());
  }

  async #begin(): Promise<void> {
    this.#begun = true;
    this.#streams.stop();
    this.#stoa.workspaces.stopWaiting();
    this.#stoa.messaging.hub.stopWaiting();
    this.#stoa.locks.stopWaiting();
    // Node counts a connection without a request as busy and would wait for it.
    for (const socket of this.#connections) if (socket.bytesRead === 0) socket.destroy();
    await Promise.all(this.#callbacks.map((callback) => callback()));
  }
}

/** Ends the streams of identities that another server of the same store has changed. */
function endChangedStreams(
  app: FastifyInstance,
  { messaging: { port }, limits, onError }: Stoa,
  streams: EventStreams,
): void {
  const check = (only?: string) => streams.endOfChanged((ids) => port.identities(ids), only);
  const report = (error: unknown): void => onError(error, 'checking whether open streams are still allowed');
  const stopListening = port.subscribe((notice) => {
    if (notice.topic === 'identity') check(notice.id).catch(report);
  });
  // Notifications can be lost, so the streams are also checked at intervals.
  const everyMs = limits.streamHeartbeatSeconds * 1_000;
  const checking = new Periodic({ everyMs, run: () => check(), onError: report });
  checking.start();
  app.addHook('onClose', async () => {
    stopListening();
    void checking.close();
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
