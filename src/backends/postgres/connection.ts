/** Connections to PostgreSQL: values as the text that the server sends, faults in Stoa's own words. */
import type { Sql, TransactionSql } from 'postgres';
import { StoaError, messageOf } from '../../errors.js';
import { importOptional } from '../optional-package.js';

export type PostgresSql = Sql;

/** What a query can run on: the pool, or one transaction. */
export type Queryable = Sql | TransactionSql;

export type Parameter = string | number | boolean | null | readonly string[];

export interface PostgresOptions {
  connectionsMax?: number;
  /** The schema for names without one; `?schema=` in the URL says the same. */
  schema?: string;
  /** The server ends a transaction that has been silent for so long, so that a client that hangs holds no locks for ever. */
  idleTransactionSecondsMax?: number;
}

/** JSON and times stay text: parsing would reorder, round or copy for nothing. */
const plainText = { serialize: (value: unknown) => String(value), parse: (text: string) => text };
const types = {
  json: { to: 114, from: [114, 3802], ...plainText },
  date: { to: 1184, from: [1082, 1114, 1184], ...plainText },
};

/** Opens a pool. Nothing is connected before the first query. */
export async function openPostgres(url: URL, options: PostgresOptions = {}): Promise<PostgresSql> {
  const { default: postgres } = await importOptional<{ default: typeof import('postgres') }>('postgres', 3);
  const target = new URL(url);
  const schema = target.searchParams.get('schema') ?? options.schema ?? null;
  target.searchParams.delete('schema');
  const sql = postgres(target.href, {
    max: options.connectionsMax ?? 10,
    connect_timeout: 10,
    backoff: (attempt) => Math.min(0.1 * 2 ** attempt, 2),
    onnotice: () => undefined,
    // The driver would ask for the types of arrays on each new connection, and nobody catches the error when that one is cut off just then.
    fetch_types: false,
    connection: { application_name: 'stoa', TimeZone: 'UTC', ...(schema !== null && { search_path: schema }), ...idleTimeout(options.idleTransactionSecondsMax) },
    types,
  });
  // The types given above change how values are parsed, not what a query is.
  return sql as unknown as PostgresSql;
}

function idleTimeout(seconds: number | undefined): { idle_in_transaction_session_timeout?: number } {
  return seconds === undefined ? {} : { idle_in_transaction_session_timeout: Math.round(seconds * 1_000) };
}

/** User, server and database of a URL, without password and schema: what two URLs have in common that can share a transaction. */
export function databaseOf(url: string): string {
  const { username, hostname, port, pathname } = new URL(url);
  return `${username}@${hostname}:${port === '' ? '5432' : port}${pathname}`;
}

/** Statements with more parameters differ from call to call too much to be worth preparing. */
const preparedParametersMax = 1_000;

export async function query<Row extends object>(sql: Queryable, text: string, parameters: readonly Parameter[] = []): Promise<readonly Row[]> {
  if (over.has(sql)) return new Promise(() => undefined);
  try {
    return await sql.unsafe<Row[]>(text, parameters.map(plainParameter), { prepare: parameters.length <= preparedParametersMax });
  } catch (error) {
    throw postgresError(error);
  }
}

/** A list as PostgreSQL writes one; the statement says of what by a cast. */
function plainParameter(parameter: Parameter): string | number | boolean | null {
  if (typeof parameter !== 'object' || parameter === null) return parameter;
  return `{${parameter.map((item) => `"${item.replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}

/** Transactions that are over while their body still runs. */
const over = new WeakSet<Queryable>();

/**
 * One attempt. When the connection is lost, the driver says so here at once, but would still send
 * what the body asks for, and the ROLLBACK after it, on a socket that is gone, which ends the
 * process, or on one that somebody else has by now. So a body without its connection never goes on.
 */
async function begin<T>(sql: PostgresSql, body: (tx: TransactionSql) => Promise<T>): Promise<T> {
  let open: TransactionSql | undefined;
  const run = (tx: TransactionSql): Promise<T> =>
    new Promise((resolve, reject) => {
      open = tx;
      const refuse = (error: unknown): void => {
        if (lostCodes.test(codeOf(error instanceof StoaError ? error.cause : error))) over.add(tx);
        if (!over.has(tx)) reject(error);
      };
      body(tx).then((result) => {
        if (!over.has(tx)) resolve(result);
      }, refuse);
    });
  try {
    // The driver's type unwraps promises inside arrays, which no body here returns.
    return (await sql.begin(run)) as T;
  } finally {
    if (open !== undefined) over.add(open);
  }
}

/** The connection is gone or going; its close follows for certain. */
const lostCodes = /^(ECONN|EPIPE|ETIMEDOUT|CONNECTION_|08|25P03|57P0[123])/;

const attemptsMax = 20;

/** Runs a transaction, again when another one was in its way. */
export async function transaction<T>(sql: PostgresSql, body: (tx: TransactionSql) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await begin(sql, body);
    } catch (error) {
      if (!(error instanceof TryAgain) && !(isConcurrency(error) && attempt < attemptsMax)) throw postgresError(error);
      if (attempt >= attemptsMax) throw new StoaError('overloaded', 'Too many writers change the same documents at once.', { fix: 'Try again shortly.' });
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 5 * attempt));
    }
  }
}

/** Thrown by a transaction's body that found its ground changed. */
export class TryAgain extends Error {}

/** Serialization failures, deadlocks, and a row that another transaction made, or took away, between the look for it and what is built on that. */
export function isConcurrency(error: unknown): boolean {
  const code = codeOf(error instanceof StoaError ? error.cause : error);
  return code === '40001' || code === '40P01' || code === '23505' || code === '23503';
}

/** The server is away, starting, stopping, has ended a silent transaction, has become a standby, or has no room for another connection. */
const unavailableCodes = /^(ECONN|EPIPE|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|CONNECT|08|25006|25P03|57P|53300)/;

function postgresError(error: unknown): unknown {
  if (error instanceof StoaError || error instanceof TryAgain) return error;
  const code = codeOf(error);
  // All that the driver throws has a code; the rest is what a transaction's body threw.
  if (code === '') return error;
  if (unavailableCodes.test(code)) {
    return new StoaError('backend_unavailable', `PostgreSQL does not answer: ${messageOf(error) || code}.`, { fix: 'Check that the server runs and can be reached.', cause: error });
  }
  if (code === '53100') return new StoaError('disk_full', 'The disk of the PostgreSQL server is full.', { cause: error });
  return new StoaError('engine', `PostgreSQL reported: ${messageOf(error)}.`, { cause: error });
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}
