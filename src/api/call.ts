/**
 * Calls of operations: the types of input and answer, and the HTTP request of a call. It loads no schemas at
 * run time.
 */
import type { z } from 'zod';
import { StoaError } from '../core/errors.js';
import { encodeSegment, percentEncoded } from '../core/text/path-segment.js';
import type * as consoleTable from './console/operations.js';
import type * as consoleSchemas from './console/schemas.js';
import type * as data from './datastore/operations.js';
import type * as dataSchemas from './datastore/schemas.js';
import type * as feed from './feed/operations.js';
import type * as feedSchemas from './feed/schemas.js';
import type * as find from './find/operations.js';
import type * as findSchemas from './find/schemas.js';
import type * as locking from './locks/operations.js';
import type * as lockingSchemas from './locks/schemas.js';
import type * as messaging from './messaging/operations.js';
import type * as messagingSchemas from './messaging/schemas.js';
import type { Method, Operation, OperationTable } from './operation.js';
import type * as room from './rooms/operations.js';
import type * as roomSchemas from './rooms/schemas.js';
import type * as registry from './registry/operations.js';
import type * as registrySchemas from './registry/schemas.js';
import type * as server from './operations/operations.js';
import type * as serverSchemas from './operations/schemas.js';
import type * as work from './workspaces/operations.js';
import type * as workSchemas from './workspaces/schemas.js';

interface Group<Table extends OperationTable, Schemas> {
  table: Table;
  schemas: Schemas;
}

/** Every group with its table and its schemas. */
export interface Groups {
  data: Group<typeof data.data, typeof dataSchemas.dataSchemas>;
  documents: Group<typeof data.documents, typeof dataSchemas.documentSchemas>;
  agents: Group<typeof registry.agents, typeof registrySchemas.agentSchemas>;
  users: Group<typeof registry.users, typeof registrySchemas.userSchemas>;
  tokens: Group<typeof registry.tokens, typeof registrySchemas.tokenSchemas>;
  links: Group<typeof registry.links, typeof registrySchemas.linkSchemas>;
  workspaces: Group<typeof work.workspaces, typeof workSchemas.workspaceSchemas>;
  projects: Group<typeof work.projects, typeof workSchemas.projectSchemas>;
  sessions: Group<typeof work.sessions, typeof workSchemas.sessionSchemas>;
  tasks: Group<typeof work.tasks, typeof workSchemas.taskSchemas>;
  find: Group<typeof find.find, typeof findSchemas.findSchemas>;
  locks: Group<typeof locking.locks, typeof lockingSchemas.lockSchemas>;
  changes: Group<typeof feed.changes, typeof feedSchemas.changeSchemas>;
  commits: Group<typeof feed.commits, typeof feedSchemas.commitSchemas>;
  rooms: Group<typeof room.rooms, typeof roomSchemas.roomSchemas>;
  messages: Group<typeof room.messages, typeof roomSchemas.messageSchemas>;
  inbox: Group<typeof room.inbox, typeof roomSchemas.inboxSchemas>;
  profiles: Group<typeof room.profiles, typeof roomSchemas.profileSchemas>;
  aicqRooms: Group<typeof messaging.aicqRooms, typeof messagingSchemas.aicqRoomSchemas>;
  aicqDirect: Group<typeof messaging.aicqDirect, typeof messagingSchemas.aicqDirectSchemas>;
  identities: Group<typeof messaging.identities, typeof messagingSchemas.identitySchemas>;
  server: Group<typeof server.server, typeof serverSchemas.serverSchemas>;
  backups: Group<typeof server.backups, typeof serverSchemas.backupSchemas>;
  blocks: Group<typeof server.blocks, typeof serverSchemas.blockSchemas>;
  console: Group<typeof consoleTable.consoleOperations, typeof consoleSchemas.consoleSchemas>;
}

export type GroupName = keyof Groups;
export type OperationName = {
  [Name in GroupName]: `${Name}.${keyof Groups[Name]['table'] & string}`;
}[GroupName];

type Named<Name extends OperationName> = Name extends `${infer In extends GroupName}.${infer Verb}`
  ? {
      row: Groups[In]['table'][Verb & keyof Groups[In]['table']] & Operation;
      schemas: Groups[In]['schemas'][Verb & keyof Groups[In]['schemas']];
    }
  : never;

/** Without the index signature of loose schemas. */
type Declared<Fields> = { [Name in keyof Fields as string extends Name ? never : Name]: Fields[Name] };

/** A query arrives as text; a caller gives the parsed value. */
export type QueryOf<Schemas> = Schemas extends { query: infer Query extends z.ZodType }
  ? Declared<{
      [Name in keyof z.input<Query>]: Name extends keyof z.output<Query> ? z.output<Query>[Name] : never;
    }>
  : unknown;

export type BodyOf<Schemas> = Schemas extends { body: infer Body extends z.ZodType }
  ? Declared<NonNullable<z.input<Body>>>
  : unknown;

export type HeaderFieldsOf<Row> = Row extends { headers: infer Names }
  ? { [Name in keyof Names as string extends Name ? never : Name]?: string | undefined }
  : unknown;

type ParamsOf<Schemas> = Schemas extends { params: infer Params extends z.ZodType }
  ? z.input<Params>
  : unknown;

type ContentOf<Content> = Content extends z.ZodType ? z.output<Content> : undefined;

/** The content of an operation's successful answers. */
export type ResultOf<Schemas> = Schemas extends { answers: infer Given }
  ? { [Status in keyof Given]: ContentOf<Given[Status]> }[keyof Given]
  : never;

/** All fields of an operation in one object, as in the operations of a commit. */
export type InputOf<Name extends OperationName> = ParamsOf<Named<Name>['schemas']> &
  HeaderFieldsOf<Named<Name>['row']> &
  QueryOf<Named<Name>['schemas']> &
  (Named<Name>['row'] extends { wholeBody: infer Field extends string }
    ? Record<Field, unknown>
    : BodyOf<Named<Name>['schemas']>);

export type AnswerOf<Name extends OperationName> = ResultOf<Named<Name>['schemas']>;

/** Settings of every call. */
export interface CallSettings {
  /** Ends the call; it rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/** Settings of a call that the operation supports. */
export type SettingsOf<Row extends Operation> = CallSettings &
  (Row['method'] extends 'GET'
    ? unknown
    : {
        /** The fencing number of the agent's lease that the caller holds. An outdated number is refused. */
        fence?: number | undefined;
      }) &
  (Row extends { creates: true } | { takesKey: true }
    ? {
        /**
         * The server does the work once for the same key, so the client may send the request again if the
         * answer was lost.
         */
        idempotencyKey?: string | undefined;
      }
    : unknown) &
  (Row extends { creates: true } | { method: 'GET' }
    ? unknown
    : Row extends { versioned: true }
      ? {
          /** The version that the record must have; 0 means that it must not exist yet. */
          ifVersion?: number | undefined;
        }
      : unknown) &
  (Row extends { consumes: readonly string[] } ? { contentType?: string | undefined } : unknown);

export interface AnySettings extends CallSettings {
  fence?: number | undefined;
  idempotencyKey?: string | undefined;
  ifVersion?: number | undefined;
  contentType?: string | undefined;
}

type QueryValues = Readonly<Record<string, string | number | boolean | undefined>>;

/** A call as an HTTP request. */
export interface CallRequest {
  method: Method;
  path: string;
  query: QueryValues;
  /** Undefined if the operation has no body. */
  body: unknown;
  contentType: string;
  headers: Readonly<Record<string, string>>;
  /** The request may be sent again after any failure. */
  repeatable: boolean;
  signal: AbortSignal | undefined;
}

/** Puts each field of an operation into the path, a header, the query or the body. */
export function requestOf(row: Operation, input: object, settings: AnySettings = {}): CallRequest {
  const { ifVersion, fence, idempotencyKey } = settings;
  const rest: Record<string, unknown> = { ...input };
  const take = (name: string): unknown => {
    const value = rest[name];
    delete rest[name];
    return value;
  };
  const path = row.path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
    encodeSegment(textOf(name, take(name))),
  );
  const headers: Record<string, string> = {
    ...(ifVersion !== undefined && versionHeader(ifVersion)),
    ...(fence !== undefined && { 'stoa-fence': String(fence) }),
    ...(idempotencyKey !== undefined && { 'idempotency-key': idempotencyKey }),
  };
  for (const [field, header] of Object.entries(row.headers ?? {})) {
    const value = take(field);
    if (value !== undefined) headers[header] = textOf(field, value);
  }
  const inQuery = takesQuery(row);
  return {
    method: row.method,
    path,
    query: inQuery ? queryOf(rest) : {},
    body:
      inQuery || row.bodiless === true ? undefined : row.wholeBody === undefined ? rest : rest[row.wholeBody],
    contentType: settings.contentType ?? 'application/json',
    headers,
    repeatable:
      row.method === 'GET' ||
      idempotencyKey !== undefined ||
      (row.repeatable === true && ifVersion === undefined),
    signal: settings.signal,
  };
}

/** The query of a URL, with its question mark; empty without values. */
export function queryText(query: QueryValues): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  return given.length === 0
    ? ''
    : `?${given.map(([name, value]) => `${name}=${percentEncoded(String(value))}`).join('&')}`;
}

/** Whether fields that are not in the path are sent in the query. */
export function takesQuery({ method, upload }: Operation): boolean {
  return method === 'GET' || method === 'DELETE' || upload === true;
}

function versionHeader(version: number): Record<string, string> {
  return version === 0 ? { 'if-none-match': '*' } : { 'if-match': `"${version}"` };
}

/** Lists are separated by commas. */
function queryOf(fields: Readonly<Record<string, unknown>>): QueryValues {
  return Object.fromEntries(
    Object.entries(fields).map(([name, value]) => [
      name,
      value === undefined || value === null ? undefined : String(value),
    ]),
  );
}

function textOf(name: string, value: unknown): string {
  if (typeof value === 'string') return value;
  throw new StoaError(
    'invalid_request',
    `${name} must be text, got ${value === null ? 'null' : typeof value}.`,
  );
}
