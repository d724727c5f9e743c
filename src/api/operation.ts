/** The description of an operation: a row of its group's table, and the schemas under the same name. */
import type { z } from 'zod';
import type { LimitName } from '../core/settings/limits.js';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Who may call an operation. `anyone` needs no credentials; credentials that are sent are checked. */
export type Principal = 'operator' | 'user' | 'agent' | 'anyone';

/** Every caller with credentials. */
export const authenticated = ['operator', 'user', 'agent'] as const satisfies readonly Principal[];
/** Callers with a bearer token. */
export const bearers = ['operator', 'user'] as const satisfies readonly Principal[];
export const operatorOnly = ['operator'] as const satisfies readonly Principal[];
export const anyone = ['anyone'] as const satisfies readonly Principal[];

/**
 * One operation without its schemas. The client and the command line load this.
 *
 * The name of a field decides where it is sent: in the path if the path names it, in a header if `headers`
 * names it, otherwise in the query of GET, DELETE and uploads and in the JSON body of the rest.
 */
export interface Operation {
  method: Method;
  /** With `{name}` for each parameter. */
  path: `/${string}`;
  /** One line for the reference, and for the help of a command that has no other line. */
  summary: string;
  /** The default is `authenticated`. */
  principals?: readonly Principal[];
  /** Creates a record, and takes `Idempotency-Key`. */
  creates?: true;
  /**
   * Where a created record is read: with 201 the answer has `Location`. The names in braces are fields of the
   * answer, or of the path. Only a POST needs it: otherwise the record is at the path of the request.
   */
  location?: `/v1/${string}`;
  /** Takes `Idempotency-Key`, although it does not create a record under /v1. */
  takesKey?: true;
  /**
   * The record has a `version`: the answer has `ETag`, and the request takes `If-Match` and `If-None-Match`.
   */
  versioned?: true;
  /** False: does not write, so a read-only token may call it. By default every method but GET writes. */
  writes?: false;
  /** An identity changes only itself, so a link's scopes do not restrict it. */
  changesOnlyItself?: true;
  /** An identity may call it without a link to an agent: public rooms, its own inbox, profiles. */
  needsNoLink?: true;
  /** Safe to repeat, so a client sends it again if the answer was lost. Reads always are. */
  repeatable?: true;
  /** POST, PUT or PATCH without a body. */
  bodiless?: true;
  /** The field that is sent as the whole body. */
  wholeBody?: string;
  /** Fields that are sent as headers. */
  headers?: Readonly<Record<string, string>>;
  /**
   * `asked`: a stream of events with `Accept: text/event-stream`. `always`: the answer is always a stream.
   */
  streams?: 'asked' | 'always';
  /** The body is lines of JSON, read as they arrive. */
  upload?: true;
  /** The limit of the body, if it is not `bodyBytesMax`. */
  bodyLimit?: LimitName;
  /**
   * The content types of the body. The default is `application/json`. With `raw` the handler reads the body.
   */
  consumes?: readonly string[] | 'raw';
  /** Not in the reference: web pages and their files. */
  hidden?: true;
}

/** The operations of one group, by the second part of their name: `claim` of `tasks.claim`. */
export type OperationTable = Readonly<Record<string, Operation>>;

/** An answer that is not JSON. */
export interface OtherContent {
  contentType: string;
  about: string;
}

/** The content of a status: JSON of a schema, other content, or nothing (null). */
type AnswerContent = z.ZodType | OtherContent | null;
export type Answers = Readonly<Record<number, AnswerContent>>;

export interface OperationSchemas {
  params?: z.ZodType;
  query?: z.ZodType;
  body?: z.ZodType;
  headers?: z.ZodType;
  /** By status. The lowest status is used for a handler's plain return value. */
  answers: Answers;
  /** More text for the reference. */
  description?: string;
}

/** The names in braces of a path. */
type PathNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;

/** The type of the schemas for a table: every operation has schemas, and every name in a path has one. */
export type SchemasOf<Table extends OperationTable> = {
  readonly [Name in keyof Table]: OperationSchemas &
    ([PathNames<Table[Name]['path']>] extends [never]
      ? { params?: undefined }
      : { params: z.ZodObject<Record<PathNames<Table[Name]['path']>, z.ZodType>> });
};

/** Reads the names in braces of a path. */
export function parameterNames(path: string): string[] {
  return Array.from(path.matchAll(/\{(\w+)\}/g), ([, name]) => name as string);
}
