/** What describes an operation: a row of its group's table, and the schemas under the same name. */
import type { z } from 'zod';
import type { LimitName } from '../core/settings/limits.js';

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** Who may call an operation. `anyone` needs no credentials; with credentials the caller is known there too. */
export type Principal = 'operator' | 'user' | 'agent' | 'anyone';

/** Every caller with credentials. */
export const authenticated = ['operator', 'user', 'agent'] as const satisfies readonly Principal[];
/** Callers with a bearer token. */
export const bearers = ['operator', 'user'] as const satisfies readonly Principal[];
export const operatorOnly = ['operator'] as const satisfies readonly Principal[];
export const anyone = ['anyone'] as const satisfies readonly Principal[];

/**
 * One operation, without its schemas: what the client and the command line load.
 *
 * A field goes where its name says: into the path when the path names it, into a header when `headers`
 * names it, otherwise into the query of GET, DELETE and uploads and into the JSON body of the rest.
 */
export interface Operation {
  method: Method;
  /** With `{name}` for each parameter. */
  path: `/${string}`;
  /** One line for the reference, and for the help of a command that has no line of its own. */
  summary: string;
  /** `authenticated` unless given. */
  principals?: readonly Principal[];
  /** It makes something: takes `Idempotency-Key`. */
  creates?: true;
  /** It changes something that exists, and takes `Idempotency-Key` too. */
  takesKey?: true;
  /** The thing has a `version`: answers with `ETag`, takes `If-Match` and `If-None-Match`. */
  versioned?: true;
  /** It changes something, so that a read-only token is refused. Every method but GET does unless this says false. */
  writes?: false;
  /** An identity changes nothing but itself with it: no link keeps it from that. */
  ofItself?: true;
  /** Doing it twice does no harm, so that a client asks again for a lost answer. Reads always are. */
  repeatable?: true;
  /** POST, PUT or PATCH without a body. */
  bodiless?: true;
  /** The field that is the whole body, instead of one of its members. */
  wholeBody?: string;
  /** Fields that travel as headers. */
  headers?: Readonly<Record<string, string>>;
  /** `asked`: a stream of events with `Accept: text/event-stream`. `always`: its answer is nothing but a stream. */
  streams?: 'asked' | 'always';
  /** Its body is lines of JSON of any length, read as they arrive. */
  upload?: true;
  /** The limit on the body, when it is not `bodyBytesMax`. */
  bodyLimit?: LimitName;
  /** The content types that the body may have: `application/json` unless given. `raw` leaves reading it to the handler. */
  consumes?: readonly string[] | 'raw';
  /** Left out of the reference: pages and their files. */
  hidden?: true;
}

/** The operations of one group, by the second part of their name: `claim` of `tasks.claim`. */
export type OperationTable = Readonly<Record<string, Operation>>;

/** An answer that is not JSON. */
export interface OtherContent {
  contentType: string;
  about: string;
}

/** What a status carries: JSON of a schema, some other content, or (null) nothing. */
export type AnswerContent = z.ZodType | OtherContent | null;
export type Answers = Readonly<Record<number, AnswerContent>>;

/** The schemas of one operation. */
export interface OperationSchemas {
  params?: z.ZodType;
  query?: z.ZodType;
  body?: z.ZodType;
  headers?: z.ZodType;
  /** By status. The lowest one is what a handler's plain return value means. */
  answers: Answers;
  /** More for the reference, where the summary does not say it. */
  description?: string;
}

/** The names in braces of a path. */
export type PathNames<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | PathNames<Rest>
  : never;

/** What a table asks of the schemas beside it: every operation has some, and every name in a path has one. */
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
