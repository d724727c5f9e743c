/**
 * Routes, made from the operations and their handlers. Fastify, OpenAPI and the table of principals use them.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import {
  type Answers,
  type Operation,
  type OperationSchemas,
  type OperationTable,
  type OtherContent,
  type Principal,
  type SchemasOf,
  authenticated,
} from '../api/operation.js';
import type { Caller } from '../core/caller.js';
import type { Stoa } from '../index.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import type { LimitName } from '../core/settings/limits.js';
import type { EventStreams } from './answer/event-stream.js';

type Output<Schema> = Schema extends z.ZodType ? z.output<Schema> : undefined;
type AnswerBody<Content> = Content extends z.ZodType
  ? z.output<Content>
  : Content extends OtherContent
    ? string | Buffer
    : undefined;
type AnyAnswerBody<Given extends Answers> = {
  [Status in keyof Given]: AnswerBody<Given[Status]>;
}[keyof Given];

/** An answer with its own status or headers. Make it with `answer`. */
export class Answer<Body> {
  constructor(
    readonly status: number,
    readonly body: Body,
    readonly headers?: Readonly<Record<string, string>>,
  ) {}
}

/**
 * An answer with headers, or with another status than the route's first. A handler that returns a plain body
 * uses the first status.
 */
export function answer<Body = undefined>(
  status: number,
  body?: Body,
  headers?: Readonly<Record<string, string>>,
): Answer<Body> {
  // Without an argument, Body is undefined by its default.
  return new Answer(status, body as Body, headers);
}

/** A JSON answer that is already text, so that a stored value is sent without parsing. */
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
  /** Null only on routes for anyone, if the request has no credentials. */
  readonly caller: Who;
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  readonly headers: Headers;
  /** From `Idempotency-Key`, on routes with `creates` or `takesKey`. */
  readonly idempotency: Idempotency | null;
  /**
   * From `If-Match: "n"`, on routes with `versioned`; `If-None-Match: *` is 0: the record must not exist yet.
   */
  readonly ifVersion: number | undefined;
  /** From `If-Match: *`: the record must exist, in any version. */
  readonly ifExists: boolean;
  /** The bytes of the body as received; empty without a body. */
  readonly rawBody: Buffer;
  readonly streams: EventStreams;
  readonly request: FastifyRequest;
  readonly reply: FastifyReply;
}

type Handled<Given extends Answers> =
  | AnyAnswerBody<Given>
  | Answer<AnyAnswerBody<Given> | JsonText>
  | JsonText
  | typeof streaming;

/** Null only for operations of anyone, if the request has no credentials. */
type CallerOf<Row extends Operation> = Row extends { principals: readonly (infer Who)[] }
  ? 'anyone' extends Who
    ? Caller | null
    : Caller
  : Caller;

type SchemaAt<Schemas, Place extends string> =
  Schemas extends Record<Place, infer Schema> ? Output<Schema> : undefined;

export type Handler<Row extends Operation, Schemas extends OperationSchemas> = (
  context: RouteContext<
    SchemaAt<Schemas, 'params'>,
    SchemaAt<Schemas, 'query'>,
    SchemaAt<Schemas, 'body'>,
    SchemaAt<Schemas, 'headers'>,
    CallerOf<Row>
  >,
) => Handled<Schemas['answers']> | Promise<Handled<Schemas['answers']>>;

/** One handler for each operation of a table. */
export type HandlersOf<Table extends OperationTable, Schemas extends SchemasOf<Table>> = {
  readonly [Name in keyof Table]: Handler<Table[Name], Schemas[Name]>;
};

/** An operation and its schemas with their types erased, for lists of routes. */
export interface Route extends Omit<Operation, 'writes' | 'headers'>, OperationSchemas {
  /** The name of the operation: `tasks.claim`. */
  readonly name: string;
  readonly tag: string;
  readonly principals: readonly Principal[];
  readonly writes: boolean;
  readonly bodyLimit: LimitName;
  /** With `raw` the handler gets the unparsed body, of any type. */
  readonly consumes: readonly string[] | 'raw';
  /** The status of a plain return value. */
  readonly defaultStatus: number;
  readonly handler: (context: RouteContext<unknown, unknown, unknown, unknown, Caller | null>) => unknown;
}

/**
 * The routes of one group. Schemas validate the input and document it; objects refuse unknown fields
 * unless they are `z.looseObject`. A table without a schema and a handler for each operation does not
 * compile.
 *
 * @example
 * export const taskRoutes = routesOf('tasks', tasks, taskSchemas, {
 *   get: ({ stoa, caller, params }) => stoa.workspaces.getTask(caller, params.task_id),
 *   …
 * });
 */
export function routesOf<const Table extends OperationTable, Schemas extends SchemasOf<Table>>(
  group: string,
  table: Table,
  schemas: Schemas,
  handlers: HandlersOf<Table, Schemas>,
): Route[] {
  return Object.keys(table).map((name) =>
    // The server passes each handler the outputs of the schemas under the same name.
    routeOf(
      group,
      name,
      table[name] as Operation,
      schemas[name] as OperationSchemas,
      handlers[name] as Route['handler'],
    ),
  );
}

function routeOf(
  group: string,
  name: string,
  row: Operation,
  schemas: OperationSchemas,
  handler: Route['handler'],
): Route {
  return {
    ...row,
    ...schemas,
    name: `${group}.${name}`,
    tag: group,
    principals: row.principals ?? authenticated,
    writes: row.writes ?? row.method !== 'GET',
    bodyLimit: row.bodyLimit ?? 'bodyBytesMax',
    consumes: row.upload === true ? 'raw' : (row.consumes ?? jsonOnly),
    params: refuseUnknown(schemas.params),
    query: refuseUnknown(schemas.query),
    body: refuseUnknown(schemas.body),
    headers: schemas.headers,
    defaultStatus: Math.min(...Object.keys(schemas.answers).map(Number)),
    handler,
  };
}

const jsonOnly: readonly string[] = ['application/json'];

/** A plain `z.object` would drop unknown fields silently; with this they are named in a 400. */
function refuseUnknown(schema: z.ZodType | undefined): z.ZodType | undefined {
  return schema instanceof z.ZodObject && schema.def.catchall === undefined ? schema.strict() : schema;
}
