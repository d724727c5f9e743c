/** One request through one route: who, what, whether, then the handler and its answer. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { StoaError } from '../errors.js';
import type { Caller } from '../identity/caller.js';
import type { Stoa } from '../index.js';
import { type FieldError, fieldErrors, invalidFields } from '../validate.js';
import { type Authenticator, callerOf, missingCredentials } from './authentication.js';
import { conditionsOf, entityTag, isNotModified } from './conditions.js';
import type { AnswerWriter } from './answer-writer.js';
import type { EventStreams } from './event-stream.js';
import type { RouteGroup } from './group.js';
import type { HostCheck } from './host-check.js';
import { idempotencyOf } from './idempotency.js';
import { parseJsonBody } from './json-body.js';
import type { LastSeen } from './last-seen.js';
import type { RateLimit } from './rate-limit.js';
import { Answer, JsonText, type Route, type RouteContext, streaming } from './route.js';

export interface PipelineServices {
  stoa: Stoa;
  streams: EventStreams;
  authenticators: readonly Authenticator[];
  hostCheck: HostCheck;
  /** Undefined: no limit. */
  rateLimit: RateLimit | undefined;
  lastSeen: LastSeen;
  writer: AnswerWriter;
  isStopping: () => boolean;
}

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller | null;
    /** The bytes of the body as they arrived. */
    rawBody: Buffer;
    startedMs: number;
    /** The path of the route, with its parameters in braces; undefined where no route was found. */
    matchedPath: string | undefined;
  }
  interface FastifyContextConfig {
    route?: Route;
    group?: RouteGroup;
  }
}

const noBody = Buffer.alloc(0);
const jsonTypes: readonly string[] = ['application/json'];
const jsonContentType = 'application/json; charset=utf-8';

export function addRoute(app: FastifyInstance, route: Route, group: RouteGroup, services: PipelineServices): void {
  const late = (group.authenticators ?? services.authenticators).filter(({ needs }) => needs === 'body');
  const steps = [group.onRequest, guard(route, services), authentication(route, group, services)].filter((step) => step !== undefined);
  app.route({
    method: route.method,
    url: route.path.replaceAll(/\{(\w+)\}/g, ':$1'),
    bodyLimit: services.stoa.limits[route.bodyLimit ?? 'bodyBytesMax'],
    config: { route, group },
    onRequest: beforeBody(route, steps, services),
    handler: (request, reply) => handle(route, isForAnyoneAlone(route) ? [] : late, services, request, reply),
  });
}

type Step = (request: FastifyRequest, reply: FastifyReply) => void | Promise<void>;

/** All steps as one hook, which costs no promise while they are synchronous: Fastify waits for a promise or for `done`. */
function beforeBody(route: Route, steps: readonly Step[], services: PipelineServices) {
  return (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void | Promise<void> => {
    request.startedMs = performance.now();
    request.matchedPath = route.path;
    try {
      refuseWhileStopping(services);
      for (let index = 0; index < steps.length; index += 1) {
        const result = (steps[index] as Step)(request, reply);
        if (result instanceof Promise) return finishSteps(result, steps.slice(index + 1), request, reply);
      }
    } catch (error) {
      // Fastify takes whatever was thrown; the error handler sorts it.
      done(error as Error);
      return undefined;
    }
    done();
    return undefined;
  };
}

async function finishSteps(running: Promise<void>, rest: readonly Step[], request: FastifyRequest, reply: FastifyReply): Promise<void> {
  await running;
  for (const step of rest) await step(request, reply);
}

export function refuseWhileStopping({ isStopping }: Pick<PipelineServices, 'isStopping'>): void {
  if (isStopping()) throw new StoaError('closed', 'The server is stopping.', { fix: 'Try again shortly.' });
}

/** By the route's own path, not the request's: that has many spellings. */
function guard(route: Route, { hostCheck }: PipelineServices): Step | undefined {
  return /^\/(v1|mcp)(\/|$)/.test(route.path) ? (request) => hostCheck.check(request) : undefined;
}

function authentication(route: Route, group: RouteGroup, services: PipelineServices): Step | undefined {
  const authenticators = group.authenticators ?? services.authenticators;
  const isOpen = route.principals.includes('anyone');
  if (isOpen && route.principals.length === 1) return undefined;
  return (request, reply) => {
    const authenticator = authenticators.find((each) => each.claims(request));
    if (authenticator === undefined) {
      if (!isOpen) throw missingCredentials();
      admit(route, services, request, reply, null);
      return undefined;
    }
    if (authenticator.needs === 'body') return undefined;
    return prove(authenticator, route, services, request, reply);
  };
}

function prove(authenticator: Authenticator, route: Route, services: PipelineServices, request: FastifyRequest, reply: FastifyReply): void | Promise<void> {
  const proven = authenticator.authenticate(request);
  if (proven instanceof Promise) {
    return proven.then((principal) => admit(route, services, request, reply, callerOf(principal, request, services.stoa)));
  }
  admit(route, services, request, reply, callerOf(proven, request, services.stoa));
}

/** Whether this caller may use the route at all; what it may see there is the service's to say. */
function admit(route: Route, { rateLimit, lastSeen }: PipelineServices, request: FastifyRequest, reply: FastifyReply, caller: Caller | null): void {
  request.caller = caller;
  if (rateLimit !== undefined && route.path.startsWith('/v1')) rateLimit.take(request, reply, caller);
  if (caller === null) return;
  lastSeen.saw(caller);
  if (!route.principals.includes(caller.kind) && !route.principals.includes('anyone')) {
    throw new StoaError('forbidden', `This is not for ${caller.kind === 'agent' ? 'agents' : `${caller.kind}s`}.`, {
      details: { allowed: route.principals },
    });
  }
  if (route.writes && !caller.scopes.write) throw new StoaError('forbidden', 'The token can only read.', { fix: 'Use a token with the scope "write".' });
}

/** `late` are the authenticators that had to wait for the body. */
async function handle(route: Route, late: readonly Authenticator[], services: PipelineServices, request: FastifyRequest, reply: FastifyReply): Promise<unknown> {
  const rawBody = request.body instanceof Buffer ? request.body : noBody;
  request.rawBody = rawBody;
  const waiting = request.caller === null ? late.find((each) => each.claims(request)) : undefined;
  if (waiting !== undefined) await prove(waiting, route, services, request, reply);
  const context = contextOf(route, services, request, reply, rawBody);
  // A stream writes its own head, from the headers that are set by then.
  if (route.streams === true) services.writer.stamp(request, reply);
  const handled = route.handler(context);
  return write(route, services.writer, request, reply, handled instanceof Promise ? await handled : handled);
}

function isForAnyoneAlone(route: Route): boolean {
  return route.principals.length === 1 && route.principals[0] === 'anyone';
}

type ErasedContext = RouteContext<unknown, unknown, unknown, unknown, Caller | null>;

function contextOf(route: Route, services: PipelineServices, request: FastifyRequest, reply: FastifyReply, rawBody: Buffer): ErasedContext {
  const { limits } = services.stoa;
  const errors: FieldError[] = [];
  const params = checked(route.params, request.params, 'path', errors);
  const query = route.query === undefined && !request.url.includes('?') ? undefined : checked(route.query ?? emptyQuery, request.query, 'query', errors);
  const headers = checked(route.headers, request.headers, 'header', errors);
  const body = route.consumes === null ? undefined : checkedBody(route, request, rawBody, limits.jsonDepthMax, errors);
  if (errors.length > 0) throw invalidFields(errors);
  const conditions = route.versioned === true && route.writes ? conditionsOf(request.headers) : undefined;
  return {
    stoa: services.stoa,
    streams: services.streams,
    caller: request.caller,
    params,
    query,
    headers,
    body,
    rawBody,
    idempotency: route.creates === true ? idempotencyOf(request, request.caller, rawBody, limits) : null,
    ifVersion: conditions?.ifVersion,
    ifExists: conditions?.ifExists ?? false,
    request,
    reply,
  };
}

/** For routes without a query: whatever is given is unknown. */
const emptyQuery = z.strictObject({});

function checked(schema: z.ZodType | undefined, value: unknown, where: string, errors: FieldError[]): unknown {
  if (schema === undefined) return undefined;
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  errors.push(...fieldErrors(result.error, [where]));
  return undefined;
}

function checkedBody(route: Route, request: FastifyRequest, rawBody: Buffer, depthMax: number, errors: FieldError[]): unknown {
  if (rawBody.length === 0) return route.body === undefined ? undefined : checked(route.body, undefined, 'body', errors);
  requireContentType(request, route.consumes ?? jsonTypes);
  const value = parseJsonBody(rawBody, depthMax);
  if (route.body !== undefined) return checked(route.body, value, 'body', errors);
  const isEmpty = typeof value === 'object' && value !== null && Object.keys(value).length === 0;
  if (!isEmpty) throw new StoaError('invalid_request', 'This route takes no body.', { fix: 'Send none.' });
  return undefined;
}

function requireContentType(request: FastifyRequest, accepted: readonly string[]): void {
  const given = request.headers['content-type'];
  const mediaType = given?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  if (accepted.includes(mediaType)) return;
  throw new StoaError('unsupported_media_type', given === undefined ? 'The body has no Content-Type.' : `The Content-Type "${mediaType.slice(0, 100)}" is not read here.`, {
    fix: `Send ${accepted.join(' or ')}.`,
  });
}

function write(route: Route, writer: AnswerWriter, request: FastifyRequest, reply: FastifyReply, handled: unknown): unknown {
  if (handled === streaming) {
    writer.note(request, 200);
    return reply;
  }
  const { status, body, headers } = handled instanceof Answer ? handled : { status: route.defaultStatus, body: handled as unknown, headers: undefined };
  if (headers !== undefined) void reply.headers(headers);
  const content = route.answers[status];
  if (content === undefined) throw new StoaError('internal', `${route.method} ${route.path} does not declare the status ${status}.`);
  if (content === null) return writeOther(writer, request, reply, status, undefined);
  if ('contentType' in content) {
    if (!reply.hasHeader('content-type')) void reply.header('content-type', content.contentType);
    return writeOther(writer, request, reply, status, body);
  }
  const version = route.versioned === true ? versionOf(body) : undefined;
  const etag = version === undefined ? undefined : entityTag(version);
  if (version !== undefined && !route.writes && isNotModified(request.headers['if-none-match'], version)) {
    void reply.header('etag', etag);
    return writeOther(writer, request, reply, 304, undefined);
  }
  return writer.text(request, reply, status, jsonContentType, body instanceof JsonText ? body.text : JSON.stringify(body), etag);
}

function writeOther(writer: AnswerWriter, request: FastifyRequest, reply: FastifyReply, status: number, body: unknown): unknown {
  const given = reply.getHeaders();
  writer.stamp(request, reply);
  writer.note(request, status);
  return reply.headers(given).code(status).send(body);
}

function versionOf(body: unknown): number | undefined {
  const { version } = (typeof body === 'object' && body !== null ? body : {}) as { version?: unknown };
  return typeof version === 'number' ? version : undefined;
}
