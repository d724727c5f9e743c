/**
 * The steps of one request on one route: authentication, validation, permission, the handler and its answer.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest, preParsingHookHandler } from 'fastify';
import { StoaError } from '../core/errors.js';
import { type Caller, requireWriteScope } from '../core/caller.js';
import type { ProvenPrincipal } from '../identity/service.js';
import { tokenRemovedError } from '../identity/tokens.js';
import type { Stoa } from '../index.js';
import type { TurnTime } from '../core/waiting/turn-time.js';
import { type FieldError, invalidFields } from '../core/validation/validate.js';
import { type Authenticator, callerOf, missingCredentials } from './request/authentication.js';
import { addressOf } from './request/caller-address.js';
import { conditionsOf, entityTag, isNotModified, unconditional } from './request/conditions.js';
import { type AnswerWriter, type SharedHeaders, apiHeaders, serverHeaders } from './answer/answer-writer.js';
import { checked, checkedBody, emptyQuery } from './request/fields.js';
import type { EndOfTurn } from './request/end-of-turn.js';
import type { EventStreams } from './answer/event-stream.js';
import { locationOf } from './answer/location.js';
import { checkFence } from './request/fence.js';
import type { RouteGroup } from './group.js';
import { type HostCheck, isGuarded, requireHost } from './request/host-check.js';
import { idempotencyOf } from './request/idempotency.js';
import type { LastSeen } from './request/last-seen.js';
import { monitored } from './idleness.js';
import type { Origins } from './request/origins.js';
import { type PathParams, type PlainParams, plainParamsOf } from './request/path-params.js';
import type { PipelinedRequests } from './request/pipelined.js';
import type { RateLimit } from './request/rate-limit.js';
import type { BodiesInMemory } from './request/bodies-in-memory.js';
import { Answer, JsonText, type Route, type RouteContext, streaming } from './route.js';
import { encodingErrors } from './request/url-encoding.js';

export interface PipelineServices {
  stoa: Stoa;
  streams: EventStreams;
  authenticators: readonly Authenticator[];
  hostCheck: HostCheck;
  origins: Origins;
  /** Undefined: no limit. */
  rateLimit: RateLimit | undefined;
  lastSeen: LastSeen;
  writer: AnswerWriter;
  endOfTurn: EndOfTurn;
  pipelined: PipelinedRequests;
  bodies: BodiesInMemory;
  /** Reads of large values that arrive together run in several turns. */
  reads: TurnTime;
  isStopping: () => boolean;
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | null;
    /** The bytes of the body as received. */
    rawBody: Buffer;
    startedMs: number;
    /** The path of the route, with its parameters in braces; undefined if no route matched. */
    matchedPath: string | undefined;
  }
  interface FastifyContextConfig {
    route?: Route;
    group?: RouteGroup;
  }
}

const noBody = Buffer.alloc(0);
const jsonContentType = 'application/json; charset=utf-8';

export function addRoute(
  app: FastifyInstance,
  route: Route,
  group: RouteGroup,
  services: PipelineServices,
): void {
  const pipeline = new RoutePipeline(route, group, services);
  const followBody: preParsingHookHandler = (request, reply, _payload, done) => {
    try {
      services.bodies.follow(request, reply);
    } catch (error) {
      done(error as Error); // The error handler converts any thrown value.
      return;
    }
    done();
  };
  app.route({
    method: route.method === 'GET' ? ['GET', 'HEAD'] : route.method,
    url: route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    bodyLimit: services.stoa.limits[route.bodyLimit],
    config: { route, group },
    onRequest: pipeline.beforeBody,
    ...(route.method !== 'GET' && !route.upload && { preParsing: followBody }),
    handler: pipeline.handle,
  });
}

/**
 * The steps of a request on one route. No promise is made while every step returns at once, as for
 * a caller with a cached token who reads from the directory home.
 */
class RoutePipeline {
  readonly #route: Route;
  readonly #services: PipelineServices;
  readonly #onRequest: RouteGroup['onRequest'];
  readonly #authenticators: readonly Authenticator[];
  /** The authenticators that need the body. */
  readonly #late: readonly Authenticator[];
  /** Whether callers without credentials are allowed. */
  readonly #isOpen: boolean;
  /** By the path of the route, because the path of a request has many spellings. */
  readonly #isGuarded: boolean;
  /** Messaging routes check blocks themselves, and the operator can always remove a block. */
  readonly #isBlockable: boolean;
  readonly #isProbe: boolean;
  readonly #rateLimit: RateLimit | undefined;
  readonly #hasPlainParams: PlainParams | undefined;
  readonly #takesConditions: boolean;
  /** Precondition headers that this route refuses: ignoring a precondition would be worse. */
  readonly #refusedConditions: readonly string[];
  readonly #keySupport: 'taken' | 'ignored' | 'refused';
  readonly #shared: SharedHeaders;
  /** Whether a step before the handler sets headers of the answer. */
  readonly #setsHeaders: boolean;

  constructor(route: Route, group: RouteGroup, services: PipelineServices) {
    const { principals } = route;
    const isForAnyoneAlone = principals.length === 1 && principals[0] === 'anyone';
    this.#route = route;
    this.#services = services;
    this.#onRequest = group.onRequest;
    this.#authenticators = isForAnyoneAlone ? [] : (group.authenticators ?? services.authenticators);
    this.#late = this.#authenticators.filter(({ needs }) => needs === 'body');
    this.#isOpen = principals.includes('anyone');
    this.#isGuarded = isGuarded(route.path);
    this.#isProbe = monitored.has(route.path);
    this.#isBlockable = this.#isGuarded && route.path !== '/v1/blocks';
    this.#rateLimit = !isForAnyoneAlone && this.#isGuarded ? services.rateLimit : undefined;
    this.#hasPlainParams = plainParamsOf(route.params);
    this.#takesConditions = route.versioned === true && route.writes && route.creates !== true;
    this.#refusedConditions =
      this.#isGuarded && route.method !== 'GET' && !this.#takesConditions
        ? unsupportedPreconditions(route)
        : [];
    this.#keySupport = keySupportOf(route);
    this.#shared = this.#isGuarded ? apiHeaders : serverHeaders;
    this.#setsHeaders = this.#onRequest !== undefined || this.#rateLimit !== undefined;
  }

  /** One hook for all steps: Fastify waits for a promise or for `done`. */
  readonly beforeBody = (
    request: FastifyRequest,
    reply: FastifyReply,
    done: (error?: Error) => void,
  ): void | Promise<void> => {
    request.startedMs = performance.now();
    request.matchedPath = this.#route.path;
    try {
      const turn = this.#services.pipelined.turnOf(request.raw, reply.raw);
      const begun =
        turn === undefined ? this.#begin(request, reply) : turn.then(() => this.#begin(request, reply));
      if (begun instanceof Promise) return begun;
    } catch (error) {
      // Fastify accepts any thrown value; the error handler converts it.
      done(error as Error);
      return undefined;
    }
    done();
    return undefined;
  };

  #begin(request: FastifyRequest, reply: FastifyReply): void | Promise<void> {
    refuseWhileStopping(this.#services);
    requireHost(request);
    this.#services.origins.admit(request, reply);
    const unblocked = this.#isBlockable
      ? this.#services.stoa.messaging.gate.checkBlocked(addressOf(request))
      : undefined;
    const entering =
      unblocked instanceof Promise
        ? unblocked.then(() => this.#onRequest?.(request, reply))
        : this.#onRequest?.(request, reply);
    return entering instanceof Promise
      ? entering.then(() => this.#enter(request, reply))
      : this.#enter(request, reply);
  }

  readonly handle = (request: FastifyRequest, reply: FastifyReply): unknown => {
    request.rawBody = request.body instanceof Buffer ? request.body : noBody;
    // Probes do not wait behind large reads.
    if (this.#isProbe) return this.#proveLate(request, reply);
    return this.#route.writes
      ? this.#services.endOfTurn.wait(request.rawBody.length).then(() => this.#proveLate(request, reply))
      : this.#services.reads.run(() => this.#proveLate(request, reply));
  };

  #proveLate(request: FastifyRequest, reply: FastifyReply): unknown {
    const waiting =
      request.caller === null && this.#late.length > 0
        ? this.#late.find((each) => each.claims(request))
        : undefined;
    const proven = waiting === undefined ? undefined : this.#prove(waiting, request, reply);
    return proven instanceof Promise
      ? proven.then(() => this.#answer(request, reply))
      : this.#answer(request, reply);
  }

  #enter(request: FastifyRequest, reply: FastifyReply): void | Promise<void> {
    if (this.#isGuarded) this.#services.hostCheck.check(request);
    for (const authenticator of this.#authenticators) {
      if (authenticator.claims(request))
        return authenticator.needs === 'body'
          ? authenticator.screen?.(request)
          : this.#prove(authenticator, request, reply);
    }
    if (!this.#isOpen) throw missingCredentials();
    return this.#authenticators.length > 0 ? this.#admit(request, reply, null) : undefined;
  }

  #prove(authenticator: Authenticator, request: FastifyRequest, reply: FastifyReply): void | Promise<void> {
    const proven = authenticator.authenticate(request);
    return proven instanceof Promise
      ? proven.then((principal) => this.#name(principal, request, reply))
      : this.#name(proven, request, reply);
  }

  /** Finds the caller from credentials and headers. Most callers are cached, and nothing waits. */
  #name(principal: ProvenPrincipal, request: FastifyRequest, reply: FastifyReply): void | Promise<void> {
    const { stoa } = this.#services;
    const caller = callerOf(principal, request, stoa.limits);
    // An identity without a link belongs to no user.
    const hasUser = !caller.everyUser && caller.user !== '';
    const known = hasUser ? stoa.identity.checkUser(caller.user) : undefined;
    const named = stoa.registry.agents.named(caller);
    return known instanceof Promise || named instanceof Promise
      ? Promise.all([named, known]).then(([acting]) => this.#admit(request, reply, acting))
      : this.#admit(request, reply, named);
  }

  #admit(request: FastifyRequest, reply: FastifyReply, caller: Caller | null): void | Promise<void> {
    request.caller = caller;
    const counted = this.#rateLimit?.take(request, reply, caller);
    return counted instanceof Promise ? counted.then(() => this.#allow(caller)) : this.#allow(caller);
  }

  /** Whether this caller may use the route. The service decides what the caller may read there. */
  #allow(caller: Caller | null): void | Promise<void> {
    const { principals, writes } = this.#route;
    if (caller === null) return undefined;
    this.#services.lastSeen.saw(caller, writes);
    if (!this.#isOpen && !principals.includes(caller.kind)) {
      throw new StoaError(
        'forbidden',
        `The credentials belong to ${caller.kind === 'user' ? 'a' : 'an'} ${caller.kind}, and this route is only for: ${principals.join(', ')}.`,
        { fix: `Use credentials of: ${principals.join(', ')}.`, details: { allowed: principals } },
      );
    }
    // A link restricts what an identity may do with the data of its user, not with itself and its messages.
    const isOwn = caller.kind === 'agent' && (!this.#isGuarded || this.#route.changesOnlyItself);
    if (writes && !isOwn) requireWriteScope(caller);
    return caller.fence === null ? undefined : checkFence(this.#route, caller, this.#services.stoa.registry);
  }

  #answer(request: FastifyRequest, reply: FastifyReply): unknown {
    const route = this.#route;
    const context = this.#contextOf(request, reply);
    // A stream writes its own head from the headers set by then.
    if (route.streams) this.#services.writer.stamp(request, reply, this.#shared);
    const handled = route.handler(context);
    if (handled instanceof Promise)
      return handled.then((late: unknown) => {
        // A stream checks the token with each event.
        const checked = late === streaming ? undefined : this.#checkToken(request.caller);
        return checked === undefined
          ? this.#write(request, reply, late)
          : checked.then(() => this.#write(request, reply, late));
      });
    return this.#write(request, reply, handled);
  }

  /** A read may have waited while the token of its caller was revoked. A write checks the token itself. */
  #checkToken(caller: Caller | null): void | Promise<void> {
    if (this.#route.method !== 'GET' || caller === null) return undefined;
    const live = this.#services.stoa.identity.isLive(caller);
    return live instanceof Promise ? live.then(refuseRemoved) : refuseRemoved(live);
  }

  #contextOf(request: FastifyRequest, reply: FastifyReply): ErasedContext {
    const route = this.#route;
    const { stoa, streams } = this.#services;
    const { caller, rawBody } = request;
    const { fieldErrorsMax: errorsMax } = stoa.limits;
    const errors: FieldError[] = request.url.includes('%') ? encodingErrors(request.url, errorsMax) : [];
    // Fastify types the parameters as unknown; its router returns texts by name.
    const params =
      this.#hasPlainParams?.(request.params as PathParams) === true
        ? request.params
        : checked(route.params, request.params, 'path', errors, errorsMax);
    const query =
      route.query === undefined && !request.url.includes('?')
        ? undefined
        : checked(route.query ?? emptyQuery, request.query, 'query', errors, errorsMax);
    const headers = checked(route.headers, request.headers, 'header', errors, errorsMax);
    const body =
      route.consumes === 'raw'
        ? undefined
        : checkedBody(route, route.consumes, request, rawBody, stoa.limits, errors);
    if (errors.length > 0) throw invalidFields(errors);
    const conditions = this.#takesConditions ? conditionsOf(request.headers) : unconditional;
    for (const name of this.#refusedConditions) {
      if (request.headers[name.toLowerCase()] === undefined) continue;
      throw new StoaError(
        'invalid_request',
        `The request has ${name}, which this route does not support: it does not write one versioned record.`,
        { fix: `Remove the ${name} header, or write one record at a time.` },
      );
    }
    if (this.#keySupport === 'refused' && request.headers['idempotency-key'] !== undefined)
      throw new StoaError(
        'invalid_request',
        'The request has an Idempotency-Key, which this route does not support.',
        {
          fix: 'Remove the header. If an answer is lost, read the record before you send the request again.',
        },
      );
    return {
      stoa,
      streams,
      caller,
      params,
      query,
      headers,
      body,
      rawBody,
      idempotency: this.#keySupport === 'taken' ? idempotencyOf(request, caller, rawBody, stoa.limits) : null,
      ifVersion: conditions.ifVersion,
      ifExists: conditions.ifExists,
      request,
      reply,
    };
  }

  #write(request: FastifyRequest, reply: FastifyReply, handled: unknown): FastifyReply | undefined {
    const route = this.#route;
    const { writer } = this.#services;
    if (handled === streaming) {
      writer.note(request, 200);
      // Fastify waits for the end of a returned reply; otherwise it would send an empty answer.
      return reply;
    }
    const isOther = handled instanceof Answer;
    const status = isOther ? handled.status : route.defaultStatus;
    const body: unknown = isOther ? handled.body : handled;
    if (isOther && handled.headers !== undefined) void reply.headers(handled.headers);
    const content = route.answers[status];
    if (content === undefined)
      throw new StoaError('internal', `${route.method} ${route.path} does not declare the status ${status}.`);
    if (content === null) {
      this.#writeOther(request, reply, status, undefined);
      return undefined;
    }
    if ('contentType' in content) {
      if (!reply.hasHeader('content-type')) void reply.header('content-type', content.contentType);
      this.#writeOther(request, reply, status, body);
      return undefined;
    }
    const version = route.versioned ? versionOf(body) : undefined;
    const etag = version === undefined ? undefined : entityTag(version);
    if (version !== undefined && !route.writes && isNotModified(request.headers['if-none-match'], version)) {
      void reply.header('etag', etag);
      this.#writeOther(request, reply, 304, undefined);
      return undefined;
    }
    const location = status === 201 ? locationOf(route, request, body) : undefined;
    if (location !== undefined) void reply.header('location', location);
    const hasHeaders =
      this.#setsHeaders || location !== undefined || (isOther && handled.headers !== undefined);
    writer.text(
      request,
      reply,
      status,
      jsonContentType,
      body instanceof JsonText ? body.text : JSON.stringify(body),
      { shared: this.#shared, etag, hasHeaders },
    );
    return undefined;
  }

  /** Sends content that is not JSON through Fastify. Headers that the handler has set win. */
  #writeOther(request: FastifyRequest, reply: FastifyReply, status: number, body: unknown): void {
    const { writer } = this.#services;
    const given = reply.getHeaders();
    writer.stamp(request, reply, this.#shared);
    writer.note(request, status);
    void reply.headers(given).code(status).send(body);
  }
}

/** A route that creates a record always means "it must not exist yet", so it may have If-None-Match. */
function unsupportedPreconditions({ creates, versioned }: Route): readonly string[] {
  return creates && versioned ? ['If-Match'] : ['If-Match', 'If-None-Match'];
}

/** A key is ignored only if a repeat is harmless. */
function keySupportOf({ creates, takesKey, method, writes, repeatable }: Route) {
  if (creates || takesKey) return 'taken';
  return method === 'POST' && writes && !repeatable ? 'refused' : 'ignored';
}

export function refuseWhileStopping({ isStopping }: Pick<PipelineServices, 'isStopping'>): void {
  if (isStopping()) throw new StoaError('closed', 'The server is stopping.', { fix: 'Try again shortly.' });
}

type ErasedContext = RouteContext<unknown, unknown, unknown, unknown, Caller | null>;

function refuseRemoved(isLive: boolean): void {
  if (!isLive) throw tokenRemovedError();
}

function versionOf(body: unknown): number | undefined {
  const { version } = (typeof body === 'object' && body !== null ? body : {}) as { version?: unknown };
  return typeof version === 'number' ? version : undefined;
}
