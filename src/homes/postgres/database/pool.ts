/** Pools of connections to PostgreSQL: opened, limited, watched and closed. */
import type { Sql, TransactionSql } from 'postgres';
import type { Limits } from '../../../core/settings/limits.js';
import { importOptional } from '../../../core/optional-package.js';
import { type OnCall, timedCall } from '../../../core/timed-call.js';
import { Places } from '../../../core/waiting/places.js';
import { AnswerTime, serverLimitMs } from './answer-time.js';
import { takeTlsMode } from './sockets.js';
import { postgresError } from './errors.js';

export interface PostgresOptions {
  connectionsMax?: number;
  /** The default schema, unless `?schema=` in the URL names another. */
  schema?: string;
  /**
   * The server ends a transaction that is idle for this time, so a client that hangs cannot hold locks
   * forever.
   */
  idleTransactionSecondsMax?: number;
  /** Connections are kept as long as they work, because their sessions hold something, such as locks. */
  keepsSessions?: boolean;
  /** The time limits of statements. Without them there is no limit. */
  limits?: Limits;
  /** Called after each transaction and each statement. */
  onCall?: OnCall;
}

/** The use of the connections of a pool. */
export interface PoolUse {
  /** Statements and transactions that have a connection. */
  readonly busy: number;
  /** Those that wait for one. */
  readonly waiting: number;
  readonly total: number;
}

/** What statements need to know of their pool, or of their transaction. */
export interface StatementContext {
  /** The time limit of statements. */
  readonly answerTime?: AnswerTime | undefined;
  /**
   * The places of a pool. A statement waits here for a connection, not in the driver: if the driver has to send a
   * BEGIN after about a hundred other statements of one connection, it does not reserve the connection. The
   * transaction then stays open under the statements of other callers. A transaction has its own connection.
   */
  readonly places?: Places;
  /** Gets the time of each call. */
  readonly onCall?: OnCall | undefined;
  /** The transaction has ended, while its body still runs. */
  isEnded?: boolean;
}

const contexts = new WeakMap<Sql | TransactionSql, StatementContext>();

export function contextOf(sql: Sql | TransactionSql): StatementContext {
  return contexts.get(sql) ?? {};
}

/** A transaction of the pool has begun. */
export function addTransaction(sql: Sql, tx: TransactionSql): StatementContext {
  const context = { answerTime: contextOf(sql).answerTime };
  contexts.set(tx, context);
  return context;
}

export function poolUse(sql: Sql): PoolUse {
  const { busy, waiting, count: total } = contextOf(sql).places ?? { busy: 0, waiting: 0, count: 0 };
  return { busy, waiting, total };
}

/**
 * Runs work that needs its own connection. A statement of a transaction uses the connection of the
 * transaction.
 */
export function inPool<T>(sql: Sql | TransactionSql, work: () => Promise<T>): Promise<T> {
  return contextOf(sql).places?.run(work) ?? work();
}

/** Runs the work and reports its time to the observer of the pool. */
export async function observed<T>(
  sql: Sql | TransactionSql,
  verb: 'statement' | 'transaction',
  work: () => PromiseLike<T>,
): Promise<T> {
  const { onCall } = contextOf(sql);
  return onCall === undefined ? work() : timedCall(onCall, verb, work);
}

const connectionsDefault = 10;

/** JSON and times stay text: parsing JSON reorders keys and rounds numbers, and parsing times rounds them. */
const plainText = { serialize: (value: unknown) => String(value), parse: (text: string) => text };
const types = {
  json: { to: 114, from: [114, 3802], ...plainText },
  date: { to: 1184, from: [1082, 1114, 1184], ...plainText },
};

/** Opens a pool. It connects at the first query. */
export async function openPostgres(url: URL, options: PostgresOptions = {}): Promise<Sql> {
  const postgres = await importOptional<typeof import('postgres')>('postgres', 3);
  const target = new URL(url);
  const schema = target.searchParams.get('schema') ?? options.schema ?? null;
  target.searchParams.delete('schema');
  const { limits, connectionsMax = connectionsDefault, onCall } = options;
  // Without limits the driver opens its own sockets, with the TLS that the URL asks for.
  const tls = limits !== undefined && takeTlsMode(target);
  const answerTime = limits === undefined ? undefined : new AnswerTime(limits.backendReadySecondsMax, tls);
  const sql = postgres(target.href, {
    max: connectionsMax,
    connect_timeout: limits?.backendRequestSecondsMax ?? 10,
    backoff: (attempt) => Math.min(0.1 * 2 ** attempt, 2),
    onnotice: () => undefined,
    ...(options.keepsSessions === true && { max_lifetime: null }),
    // Otherwise the driver queries the types of arrays on each new connection, and if the connection is lost
    // during that query, no code catches the error.
    fetch_types: false,
    connection: {
      application_name: 'stoa',
      TimeZone: 'UTC',
      // Locks and second looks rely on it: each statement sees what was committed before it. A database can have another
      // default.
      default_transaction_isolation: 'read committed',
      ...(schema !== null && { search_path: schema }),
      ...idleTimeout(options.idleTransactionSecondsMax),
      ...statementTimeout(limits),
    },
    types,
    ...(answerTime !== undefined && { socket: answerTime.connect, ssl: false }),
  });
  // The types given above change how values are parsed, not the type of a query.
  const pool = sql as unknown as Sql;
  contexts.set(pool, { answerTime, places: new Places(connectionsMax), onCall });
  return pool;
}

/** Called when the tables are made: from now on statements have the limit `statementSecondsMax`. */
export function limitStatements(sql: Sql, limits: Limits): void {
  const { answerTime } = contextOf(sql);
  if (answerTime !== undefined) answerTime.secondsMax = limits.statementSecondsMax;
}

/** Closes a pool. Running statements get these seconds to end. */
export async function closePostgres(sql: Sql, seconds: number): Promise<void> {
  const { answerTime } = contextOf(sql);
  // The driver counts a connection that was lost during a statement as busy, and would wait for it.
  await sql.end({ timeout: answerTime?.underWay === 0 ? 0 : seconds });
  answerTime?.end();
}

/**
 * Listens to a channel. `onListen` is called at the start and after each reconnect: notices may have been
 * missed.
 */
export async function listen(
  sql: Sql,
  channel: string,
  onNotice: (payload: string) => void,
  onListen: () => void,
): Promise<void> {
  const listening = sql.listen(channel, onNotice, onListen);
  try {
    await (contextOf(sql).answerTime?.within(listening) ?? listening);
  } catch (error) {
    throw postgresError(error);
  }
}

function idleTimeout(seconds: number | undefined): { idle_in_transaction_session_timeout?: number } {
  return seconds === undefined ? {} : { idle_in_transaction_session_timeout: Math.round(seconds * 1_000) };
}

/** The server itself ends late statements, so none keeps running after its caller has given up. */
function statementTimeout(limits: Limits | undefined): { statement_timeout?: number } {
  return limits === undefined ? {} : { statement_timeout: serverLimitMs(limits.statementSecondsMax) };
}
