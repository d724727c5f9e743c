/** Connections to PostgreSQL. JSON and times are read as text; errors become errors of Stoa (`errors.ts`). */
import type { Sql, TransactionSql } from 'postgres';
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { importOptional } from '../../../core/optional-package.js';
import { AnswerTime } from './answer-time.js';
import { TryAgain, codeOf, isConcurrency, lostCodes, postgresError } from './errors.js';

export type PostgresSql = Sql;

/** A query runs on the pool or in one transaction. */
export type Queryable = Sql | TransactionSql;

export type Parameter = string | number | boolean | null | readonly string[];

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

export type OnCall = (verb: 'statement' | 'transaction', milliseconds: number, failed: boolean) => void;

/** By pool or transaction: the time limit of its statements. */
const answerTimes = new WeakMap<Queryable, AnswerTime>();

/** The use of the connections of a pool. */
export interface PoolUse {
  /** Statements and transactions that have a connection. */
  readonly busy: number;
  /** Those that wait for one. */
  readonly waiting: number;
  readonly total: number;
}

const pools = new WeakMap<Queryable, { users: number; readonly total: number }>();

export function poolUse(sql: PostgresSql): PoolUse {
  const { users, total } = pools.get(sql) ?? { users: 0, total: 0 };
  return { busy: Math.min(users, total), waiting: Math.max(0, users - total), total };
}

/**
 * Counts work that has a connection of the pool or waits for one. Statements of a transaction use its
 * connection.
 */
async function inPool<T>(sql: Queryable, work: PromiseLike<T>): Promise<T> {
  const pool = pools.get(sql);
  if (pool === undefined) return work;
  pool.users += 1;
  try {
    return await work;
  } finally {
    pool.users -= 1;
  }
}

const connectionsDefault = 10;
/** By pool: the function that gets the time of each call. */
const observers = new WeakMap<Queryable, OnCall>();

/** JSON and times stay text: parsing JSON reorders keys and rounds numbers, and parsing times rounds them. */
const plainText = { serialize: (value: unknown) => String(value), parse: (text: string) => text };
const types = {
  json: { to: 114, from: [114, 3802], ...plainText },
  date: { to: 1184, from: [1082, 1114, 1184], ...plainText },
};

/** Opens a pool. It connects at the first query. */
export async function openPostgres(url: URL, options: PostgresOptions = {}): Promise<PostgresSql> {
  const { default: postgres } = await importOptional<{ default: typeof import('postgres') }>('postgres', 3);
  const target = new URL(url);
  const schema = target.searchParams.get('schema') ?? options.schema ?? null;
  target.searchParams.delete('schema');
  const { limits, connectionsMax = connectionsDefault } = options;
  const answerTime = limits === undefined ? undefined : new AnswerTime(limits.backendReadySecondsMax);
  const sql = postgres(target.href, {
    max: connectionsMax,
    connect_timeout: limits?.backendRequestSecondsMax ?? 10,
    backoff: (attempt) => Math.min(0.1 * 2 ** attempt, 2),
    onnotice: () => undefined,
    ...(options.keepsSessions === true && { max_lifetime: null }),
    // Otherwise the driver queries the types of arrays on each new connection, and if the connection is lost
    // during that query, nobody catches the error.
    fetch_types: false,
    connection: {
      application_name: 'stoa',
      TimeZone: 'UTC',
      ...(schema !== null && { search_path: schema }),
      ...idleTimeout(options.idleTransactionSecondsMax),
      ...statementTimeout(limits),
    },
    types,
    ...(answerTime !== undefined && { socket: answerTime.connect }),
  });
  // The types given above change how values are parsed, not the type of a query.
  const pool = sql as unknown as PostgresSql;
  if (answerTime !== undefined) answerTimes.set(pool, answerTime);
  pools.set(pool, { users: 0, total: connectionsMax });
  if (options.onCall !== undefined) observers.set(pool, options.onCall);
  return pool;
}

/** Called when the tables are made: from now on statements have the limit `statementSecondsMax`. */
export function limitStatements(sql: PostgresSql, limits: Limits): void {
  const answerTime = answerTimes.get(sql);
  if (answerTime !== undefined) answerTime.secondsMax = limits.statementSecondsMax;
}

/** Closes a pool. Running statements get these seconds to end. */
export async function closePostgres(sql: PostgresSql, seconds: number): Promise<void> {
  const answerTime = answerTimes.get(sql);
  // The driver counts a connection that was lost during a statement as busy, and would wait for it.
  await sql.end({ timeout: answerTime?.underWay === 0 ? 0 : seconds });
  answerTime?.end();
}

/**
 * Listens to a channel. `onListen` is called at the start and after each reconnect: notices may have been
 * missed.
 */
export async function listen(
  sql: PostgresSql,
  channel: string,
  onNotice: (payload: string) => void,
  onListen: () => void,
): Promise<void> {
  const listening = sql.listen(channel, onNotice, onListen);
  try {
    await (answerTimes.get(sql)?.within(listening) ?? listening);
  } catch (error) {
    throw postgresError(error);
  }
}

function idleTimeout(seconds: number | undefined): { idle_in_transaction_session_timeout?: number } {
  return seconds === undefined ? {} : { idle_in_transaction_session_timeout: Math.round(seconds * 1_000) };
}

/** The server itself ends late statements, so none keeps running after its caller has given up. */
function statementTimeout(limits: Limits | undefined): { statement_timeout?: number } {
  return limits === undefined ? {} : { statement_timeout: Math.round(limits.statementSecondsMax * 1_000) };
}

/** A statement with more parameters is rarely sent twice with the same text, so it is not prepared. */
const preparedParametersMax = 1_000;

export async function query<Row extends object>(
  sql: Queryable,
  text: string,
  parameters: readonly Parameter[] = [],
): Promise<readonly Row[]> {
  if (endedTransactions.has(sql)) return new Promise(() => undefined);
  const pending = sql.unsafe<Row[]>(text, parameters.map(plainParameter), {
    prepare: parameters.length <= preparedParametersMax,
  });
  try {
    const answered = answerTimes.get(sql)?.within(pending, () => withdraw(pending)) ?? pending;
    return await observed(sql, 'statement', inPool(sql, answered));
  } catch (error) {
    throw postgresError(error);
  }
}

/** Runs the work and reports its time to the observer of the pool. */
async function observed<T>(sql: Queryable, verb: Parameters<OnCall>[0], work: PromiseLike<T>): Promise<T> {
  const onCall = observers.get(sql);
  if (onCall === undefined) return work;
  const startedMs = performance.now();
  let failed = true;
  try {
    const result = await work;
    failed = false;
    return result;
  } finally {
    onCall(verb, performance.now() - startedMs, failed);
  }
}

/** Removes a statement that still waits for a connection, so it is not sent after its caller has given up. */
function withdraw(pending: { cancel(): void }): void {
  // The driver sets `state` when it sends a statement. To cancel a sent statement, the driver opens a
  // connection, and nobody catches the error if that fails.
  if (!('state' in pending) || pending.state === null) pending.cancel();
}

/** A list in PostgreSQL's text format. The statement casts it to the type of its items. */
function plainParameter(parameter: Parameter): string | number | boolean | null {
  if (typeof parameter !== 'object' || parameter === null) return parameter;
  return `{${parameter.map((item) => `"${item.replaceAll(/["\\]/g, '\\$&')}"`).join(',')}}`;
}

/** Transactions that have ended while their body still runs. */
const endedTransactions = new WeakSet<Queryable>();

/**
 * One attempt of a transaction. If the connection is lost, the driver rejects at once. It would still send
 * later statements of the body, and the ROLLBACK: on the closed socket, which ends the process, or on a
 * connection that another transaction has by now. So after a lost connection, `query` never returns to the
 * body.
 */
function begin<T>(sql: PostgresSql, body: (tx: TransactionSql) => Promise<T>): Promise<T> {
  const answerTime = answerTimes.get(sql);
  if (answerTime !== undefined) answerTime.underWay += 1;
  const ended = new Promise<T>((resolve, reject) => {
    let open: TransactionSql | undefined;
    let [isRefused, isOver] = [false, false];
    const refuse = (late: StoaError): void => {
      isRefused = true;
      reject(late);
    };
    /** Ends the time limit of BEGIN, and later of COMMIT or ROLLBACK, which the driver sends itself. */
    let stop = answerTime?.limit(refuse);
    const run = (tx: TransactionSql): Promise<T> =>
      new Promise((commit, rollBack) => {
        stop?.();
        open = tx;
        if (answerTime !== undefined) answerTimes.set(tx, answerTime);
        const end = (act: () => void): void => {
          if (isOver) return;
          stop = answerTime?.limit((late) => {
            refuse(late);
            // If the connection is only slow, the rollback returns it to the pool.
            setImmediate(() => {
              if (!isOver) rollBack(late);
            });
          });
          if (!endedTransactions.has(tx)) act();
        };
        const fail = (error: unknown): void => {
          if (lostCodes.test(codeOf(error instanceof StoaError ? error.cause : error)))
            endedTransactions.add(tx);
          end(() => rollBack(error));
        };
        // The caller may have given up while the transaction waited for a connection.
        if (isRefused)
          fail(
            new StoaError('backend_unavailable', 'PostgreSQL started this transaction after its time limit.'),
          );
        else body(tx).then((result) => end(() => commit(result)), fail);
      });
    const settle = (act: () => void): void => {
      isOver = true;
      stop?.();
      if (open !== undefined) endedTransactions.add(open);
      act();
    };
    // The driver's type unwraps promises inside arrays, which no body here returns.
    sql.begin(run).then(
      (result) => settle(() => resolve(result as T)),
      (error: unknown) => settle(() => reject(error)),
    );
  });
  return ended.finally(() => {
    if (answerTime !== undefined) answerTime.underWay -= 1;
  });
}

const attemptsMax = 20;

/**
 * Runs a transaction, and runs it again after a conflict with another one. `awaitSent` throws the error of a
 * statement that the body sent without waiting for it: that transaction was rolled back instead of committed.
 */
export async function transaction<T>(
  sql: PostgresSql,
  body: (tx: TransactionSql) => Promise<T>,
  awaitSent: (result: T) => Promise<void> = async () => undefined,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await observed(sql, 'transaction', inPool(sql, begin(sql, body)));
      await awaitSent(result);
      return result;
    } catch (error) {
      if (!(error instanceof TryAgain) && !(isConcurrency(error) && attempt < attemptsMax))
        throw postgresError(error);
      if (attempt >= attemptsMax)
        throw new StoaError(
          'overloaded',
          `The write conflicted with other writes to the same rows ${attemptsMax} times.`,
          { fix: 'Try again shortly.' },
        );
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 5 * attempt));
    }
  }
}
