/** One definition of a route: Fastify, OpenAPI and the table of principals are all made from it. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import type { Caller } from '../identity/caller.js';
import type { Stoa } from '../index.js';
import type { Idempotency } from '../kernel/once.js';
import type { LimitName } from '../limits.js';
import type { EventStreams } from './event-stream.js';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Who may call a route. `anyone` needs no credentials; with credentials the caller is known there too. */
export type Principal = 'operator' | 'user' | 'agent' | 'anyone';

/** Every caller with credentials. */
export const authenticated = ['operator', 'user', 'agent'] as const satisfies readonly Principal[];
export const operatorOnly = ['operator'] as const satisfies readonly Principal[];
export const anyone = ['anyone'] as const satisfies readonly Principal[];

/** An answer that is not JSON. */
export interface OtherContent {
  contentType: string;
  about: string;
}

/** What a status carries: JSON of a schema, some other content, or (null) nothing. */
export type AnswerContent = z.ZodType | OtherContent | null;
export type Answers = Readonly<Record<number, AnswerContent>>;

type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;
type AnswerBody<Content> = Content extends z.ZodType
  ? z.output<Content>
  : Content extends OtherContent
    ? string | Buffer
    : undefined;
type AnyAnswerBody<Given extends Answers> = {
  [Status in keyof Given]: AnswerBody<Given[Status]>;
}[keyof Given];

/** An answer with a status or headers of its own. Make it with `answer`. */
export class Answer<Body> {
  constructor(
    readonly status: number,
    readonly body: Body,
    readonly headers?: Readonly<Record<string, string>>,
  ) {}
}

/** An answer with another status than the route's first, or with headers. A handler that returns a plain body means the first. */
export function answer<Body = undefined>(
  status: number,
  body?: Body,
  headers?: Readonly<Record<string, string>>,
): Answer<Body> {
  // Without a body, Body is undefined by its default.
  return new Answer(status, body as Body, headers);
}

/** A JSON answer that is text already, so that a stored value need not be parsed to be sent. */
export class JsonText {
  constructor(
    readonly text: string,
    /** For the `ETag` of a versioned route. */
    readonly version?: number,
  ) {}
}

/** Returned by a handler that has opened a stream and writes the answer itself. */
export const streaming = Symbol('streaming');

export interface RouteContext<Params, Query, Body, Headers, Who> {
  readonly stoa: Stoa;
  /** Null only on routes for anyone, when the request carried no credentials. */
  readonly caller: Who;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly headers: Headers;
  /** From `Idempotency-Key`, on routes with `creates`. */
  readonly idempotency: Idempotency | null;
  /** From `If-Match: "n"`, on routes with `versioned`; `If-None-Match: *` is 0: it must not exist yet. */
  readonly ifVersion: number | undefined;
  /** From `If-Match: *`: it must exist, in whatever version. */
  readonly ifExists: boolean;
  /** The bytes of the body as they arrived; empty without a body. */
  readonly rawBody: Buffer;
  readonly streams: EventStreams;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

interface RouteFacts {
  method: Method;
  /** With `{name}` for each parameter. */
  path: string;
  /** One line for the reference. */
  summary: string;
  /** More, where one line does not say it. */
  description?: string;
  tags: readonly string[];
  /** It makes something: takes `Idempotency-Key`. */
  creates?: boolean;
  /** The thing has a `version`: answers with `ETag`, takes `If-Match` and `If-None-Match`. */
  versioned?: boolean;
  /** It changes something, so that a read-only token is refused. Every method but GET does unless this says false. */
  writes?: boolean;
  /** An identity changes nothing but itself with it: no link keeps it from that. */
  ofItself?: boolean;
  /** With `Accept: text/event-stream` it answers a stream of server-sent events. */
  streams?: boolean;
  /** The limit on the body, when it is not `bodyBytesMax`. */
  bodyLimit?: LimitName;
  /** The content types that the body may have: `application/json` unless given. `null` takes the body unparsed, of any type. */
  consumes?: readonly string[] | null;
  /** Its body is lines of JSON, of any length: `request.body` is a stream of the bytes. Goes with `consumes: null`. */
  streamsBody?: boolean;
  /** Left out of the OpenAPI document (pages, assets). */
  hidden?: boolean;
}

export interface RouteDefinition<
  Who extends readonly Principal[],
  Params extends z.ZodType | undefined,
  Query extends z.ZodType | undefined,
  Body extends z.ZodType | undefined,
  Headers extends z.ZodType | undefined,
  Given extends Answers,
> extends RouteFacts {
  principals: Who;
  params?: Params;
  query?: Query;
  body?: Body;
  headers?: Headers;
  /** By status. The lowest one is what a plain return value means. */
  answers: Given;
  handler: (
    context: RouteContext<
      Output<Params>,
      Output<Query>,
      Output<Body>,
      Output<Headers>,
      'anyone' extends Who[number] ? Caller | null : Caller
    >,
  ) => Handled<Given> | Promise<Handled<Given>>;
}

type Handled<Given extends Answers> =
  | AnyAnswerBody<Given>
  | Answer<AnyAnswerBody<Given> | JsonText>
  | JsonText
  | typeof streaming;

/** A route with its types erased: what lists of routes hold. */
export interface Route extends RouteFacts {
  readonly principals: readonly Principal[];
  readonly params: z.ZodType | undefined;
  readonly query: z.ZodType | undefined;
  readonly body: z.ZodType | undefined;
  readonly headers: z.ZodType | undefined;
  readonly answers: Answers;
  /** The status of a plain return value. */
  readonly defaultStatus: number;
  readonly writes: boolean;
  readonly handler: (context: RouteContext<unknown, unknown, unknown, unknown, Caller | null>) => unknown;
}

/**
 * Defines a route. Schemas check what comes in and document it; objects refuse unknown fields
 * unless they say otherwise (`z.looseObject`).
 *
 * @example
 * export const routes = [
 *   defineRoute({
 *     method: 'GET', path: '/v1/agents/{id}', summary: 'One agent', tags: ['agents'],
 *     principals: authenticated, versioned: true,
 *     params: z.object({ id: agentId }),
 *     answers: { 200: agentSchema },
 *     handler: ({ stoa, caller, params }) => stoa.registry.getAgent(caller, params.id),
 *   }),
 * ];
 */
export function defineRoute<
  const Who extends readonly Principal[],
  const Given extends Answers,
  Params extends z.ZodType | undefined = undefined,
  Query extends z.ZodType | undefined = undefined,
  Body extends z.ZodType | undefined = undefined,
  Headers extends z.ZodType | undefined = undefined,
>(definition: RouteDefinition<Who, Params, Query, Body, Headers, Given>): Route {
  const { params, query, body, headers, handler, ...facts } = definition;
  return {
    ...facts,
    params: refuseUnknown(params),
    query: refuseUnknown(query),
    body: refuseUnknown(body),
    headers,
    defaultStatus: Math.min(...Object.keys(definition.answers).map(Number)),
    writes: definition.writes ?? definition.method !== 'GET',
    // The server hands every handler the outputs of exactly the schemas that stand beside it.
    handler: handler as Route['handler'],
  };
}

/** A plain `z.object` would drop unknown fields in silence; here they are named in a 400. */
function refuseUnknown(schema: z.ZodType | undefined): z.ZodType | undefined {
  return schema instanceof z.ZodObject && schema.def.catchall === undefined ? schema.strict() : schema;
}

/** Reads the names in braces of a path. */
export function parameterNames(path: string): string[] {
  return Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name as string);
}
