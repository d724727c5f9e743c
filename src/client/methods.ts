/**
 * The operations of a group as methods. Types come from the table and the schemas, requests from the table.
 * No Node built-ins.
 */
import {
  type AnySettings,
  type BodyOf,
  type CallRequest,
  type GroupName,
  type Groups,
  type HeaderFieldsOf,
  type QueryOf,
  type ResultOf,
  type SettingsOf,
  requestOf,
  takesQuery,
} from '../api/call.js';
import { type Operation, type OperationTable, parameterNames } from '../api/operation.js';
import type { Transport } from './transport/transport.js';

type PathArguments<Path extends string> = Path extends `${string}{${string}}${infer Rest}`
  ? [string, ...PathArguments<Rest>]
  : [];

type Optional<Argument> = Record<never, never> extends Argument ? [given?: Argument] : [given: Argument];

type Arguments<Row extends Operation, Schemas> = Row['method'] extends 'GET' | 'DELETE'
  ? [...PathArguments<Row['path']>, ...Optional<QueryOf<Schemas> & HeaderFieldsOf<Row> & SettingsOf<Row>>]
  : Row extends { bodiless: true }
    ? [...PathArguments<Row['path']>, settings?: SettingsOf<Row>]
    : [
        ...PathArguments<Row['path']>,
        ...(Row extends { wholeBody: string } ? [body: unknown] : Optional<BodyOf<Schemas>>),
        settings?: HeaderFieldsOf<Row> & SettingsOf<Row>,
      ];

/** Streams and uploads are not plain calls. */
type Callable<Table> = {
  [Name in keyof Table]: Table[Name] extends { streams: 'always' } | { upload: true } ? never : Name;
}[keyof Table];

type Given<Name extends GroupName, Verb extends keyof Groups[Name]['table']> = Arguments<
  Groups[Name]['table'][Verb] & Operation,
  Groups[Name]['schemas'][Verb & keyof Groups[Name]['schemas']]
>;

type Result<Name extends GroupName, Verb> = ResultOf<
  Groups[Name]['schemas'][Verb & keyof Groups[Name]['schemas']]
>;

/**
 * First the parameters of the path; then for reads and deletions everything else in one object, for
 * the others the body and the settings.
 */
export type Methods<Name extends GroupName> = {
  readonly [Verb in Callable<Groups[Name]['table']>]: (
    ...given: Given<Name, Verb>
  ) => Promise<Result<Name, Verb>>;
};

/** The same, with the position of the change feed from which to follow later changes. */
export type PositionedMethods<Name extends GroupName> = {
  readonly [Verb in Callable<Groups[Name]['table']>]: (
    ...given: Given<Name, Verb>
  ) => Promise<{ body: Result<Name, Verb>; position: string }>;
};

/**
 * @example
 * const calls = methodsOf(transport, 'tasks', tasks);
 * const task = await calls.complete(id, { fence: 3, output: 'done' });
 */
export function methodsOf<Name extends GroupName>(
  transport: Transport,
  _name: Name,
  table: Groups[Name]['table'],
): Methods<Name> {
  // Each method is made from the same row as its type.
  return made(table, (request) => transport.call(request)) as Methods<Name>;
}

export function positionedMethodsOf<Name extends GroupName>(
  transport: Transport,
  _name: Name,
  table: Groups[Name]['table'],
): PositionedMethods<Name> {
  // As in methodsOf.
  return made(table, (request) => transport.page(request)) as PositionedMethods<Name>;
}

function made(table: OperationTable, send: (request: CallRequest) => Promise<unknown>): object {
  const callable = Object.entries(table).filter(([, row]) => row.streams !== 'always' && row.upload !== true);
  return Object.fromEntries(
    callable.map(([verb, row]) => [verb, async (...given: unknown[]) => send(requestOfCall(row, given))]),
  );
}

/** The request of a call with arguments in the order of `Methods`. */
export function requestOfCall(row: Operation, given: readonly unknown[]): CallRequest {
  const names = parameterNames(row.path);
  const input: Record<string, unknown> = Object.fromEntries(names.map((name, at) => [name, given[at]]));
  const rest = given.slice(names.length);
  const hasBody = !takesQuery(row) && row.bodiless !== true;
  if (hasBody && row.wholeBody !== undefined) input[row.wholeBody] = rest[0];
  else if (hasBody) Object.assign(input, rest[0]);
  const { signal, fence, idempotencyKey, ifVersion, contentType, ...fields }: AnySettings =
    rest[hasBody ? 1 : 0] ?? {};
  return requestOf(row, { ...input, ...fields }, { signal, fence, idempotencyKey, ifVersion, contentType });
}
