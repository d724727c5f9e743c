/** Connections to PostgreSQL: values as the text that the server sends, faults in Stoa's own words. */
import type { PendingQuery, Sql, TransactionSql } from 'postgres';
import { StoaError, messageOf } from '../../core/errors.js';
import type { Limits } from '../../core/settings/limits.js';
import { importOptional } from '../../core/optional-package.js';
import { Places } from '../../core/waiting/places.js';
import { AnswerTime } from './answer-time.js';

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
  /** A connection is kept as long as it works, and with it what its session holds. */
  keepsSessions?: boolean;
  /** Bound the time of every statement; without them there is no bound. */
  limits?: Limits;
  /** Called at the end of each transaction, and of each statement outside one. */
  onCall?: OnCall;
}

export type OnCall = (verb: 'statement' | 'transaction', milliseconds: number, failed: boolean) => void;

/** The time that the statements of a pool, or of a transaction in it, may take. */
const answerTimes = new WeakMap<Queryable, AnswerTime>();

/** How the connections of a pool are used. */
export interface PoolUse {
  /** Statements and transactions that have a connection. */
  readonly busy: number;
  /** Those that wait for one. */
  readonly waiting: number;
  readonly total: number;
}

/**
 * A place for each connection of a pool. Statements and transactions beyond them wait here, in order, and not in the
 * driver: the driver would send a BEGIN behind other statements of a busy connection, and if that connection cannot take
 * more at that moment, it forgets to reserve the connection. The transaction then stays open under the statements of others.
 */
const pools = new WeakMap<Queryable, Places>();

export function poolUse(sql: PostgresSql): PoolUse {
  const { busy, waiting, count: total } = pools.get(sql) ?? { busy: 0, waiting: 0, count: 0 };
  return { busy, waiting, total };
}

/** Runs work that needs a connection of its own; a statement of a transaction has that one's. */
function inPool<T>(sql: Queryable, work: () => Promise<T>): Promise<T> {
  return pools.get(sql)?.run(work) ?? work();
}

const connectionsDefault = 10;
/** Who is told how long the calls of a pool take. */
const observers = new WeakMap<Queryable, OnCall>();

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
  const { limits, connectionsMax = connectionsDefault } = options;
  const answerTime = limits === undefined ? undefined : new AnswerTime(limits.backendReadySecondsMax);
  const sql = postgres(target.href, {
    max: connectionsMax,
    connect_timeout: limits?.backendRequestSecondsMax ?? 10,
    backoff: (attempt) => Math.min(0.1 * 2 ** attempt, 2),
    onnotice: () => undefined,
    ...(options.keepsSessions === true && { max_lifetime: null }),
    // The driver would ask for the types of arrays on each new connection, and nobody catches the error when that one is cut off just then.
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
  // The types given above change how values are parsed, not what a query is.
  const pool = sql as unknown as PostgresSql;
  if (answerTime !== undefined) answerTimes.set(pool, answerTime);
  pools.set(pool, new Places(connectionsMax));
  if (options.onCall !== undefined) observers.set(pool, options.onCall);
  return pool;
}

/** The tables are made: from here on statements take no longer than the limit. */
export function boundStatements(sql: PostgresSql, limits: Limits): void {
  const answerTime = answerTimes.get(sql);
  if (answerTime !== undefined) answerTime.secondsMax = limits.statementSecondsMax;
}

/** Ends a pool: what is under way gets these seconds. */
export async function closePostgres(sql: PostgresSql, seconds: number): Promise<void> {
  const answerTime = answerTimes.get(sql);
  // The driver takes a connection that was lost in the middle of a statement for a busy one, and would wait for it.
  await sql.end({ timeout: answerTime?.underWay === 0 ? 0 : seconds });
  answerTime?.end();
}

/** Hears what is told in a channel; `onListen` is called again whenever the connection had to be made anew. */
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

/** The server ends statements by itself, so that none goes on for nobody. */
function statementTimeout(limits: Limits | undefined): { statement_timeout?: number } {
  return limits === undefined ? {} : { statement_timeout: Math.round(limits.statementSecondsMax * 1_000) };
}

/** Statements with more parameters differ from call to call too much to be worth preparing. */
const preparedParametersMax = 1_000;

export async function query<Row extends object>(
  sql: Queryable,
  text: string,
  parameters: readonly Parameter[] = [],
): Promise<readonly Row[]> {
  if (over.has(sql)) return new Promise(() => undefined);
  const statement = new Statement<Row>(sql, text, parameters.map(plainParameter));
  const answered = inPool(sql, () => statement.run());
  try {
    return await observed(
      sql,
      'statement',
      answerTimes.get(sql)?.within(answered, () => statement.withdraw()) ?? answered,
    );
  } catch (error) {
    throw postgresError(error);
  }
}

/** One statement, which may have to be given to the driver more than once. */
class Statement<Row extends object> {
  readonly #start: () => PendingQuery<Row[]>;
  readonly #attemptsMax: number;
  #pending: PendingQuery<Row[]> | undefined;
  #isWithdrawn = false;
  readonly #withdrawn: Promise<never[]>;
  #onWithdrawn: () => void = () => undefined;

  constructor(sql: Queryable, text: string, values: PlainParameter[]) {
    const prepare = values.length <= preparedParametersMax;
    this.#start = () => sql.unsafe<Row[]>(text, values, { prepare });
    this.#attemptsMax = staleReportsMax(sql);
    this.#withdrawn = new Promise((resolve) => {
      this.#onWithdrawn = () => resolve([]);
    });
  }

  async run(): Promise<readonly Row[]> {
    for (let attempt = 1; ; attempt += 1) {
      if (this.#isWithdrawn) return [];
      // Given to the driver in this turn: statements of a transaction keep their order.
      const pending = this.#start().execute();
      this.#pending = pending;
      try {
        return await Promise.race([pending, this.#withdrawn]);
      } catch (error) {
        if (attempt > this.#attemptsMax || !staleCodes.test(codeOf(error)) || wasSent(pending)) throw error;
      }
    }
  }

  /** A statement that still waits for a connection is not to be sent when nobody waits for it any more. */
  withdraw(): void {
    this.#isWithdrawn = true;
    setTimeout(this.#onWithdrawn, placeKeptMs).unref();
    // To cancel one that was sent, the driver would open a connection, and leave a failure of it unhandled.
    if (this.#pending !== undefined && !wasSent(this.#pending)) this.#pending.cancel();
  }
}

/**
 * The driver reports a connection that was lost in the middle of a statement once more, to the next caller that gets this
 * connection, before anything was sent on the new one. So each connection of a pool may fail one caller for nothing.
 */
const staleCodes = /^(57P0[12]|CONNECTION_CLOSED)$/;

/**
 * The driver never settles some statements of lost connections. Their place is free this long after nobody waits for them
 * any more: by then their connection is closed.
 */
const placeKeptMs = 1_000;

/** A transaction has one connection, and ends with it. */
function staleReportsMax(sql: Queryable): number {
  return pools.get(sql)?.count ?? 0;
}

/** The driver says so. */
function wasSent(pending: object): boolean {
  return 'state' in pending && pending.state !== null;
}

/** The same; who observes the pool is told how long it took. */
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

type PlainParameter = string | number | boolean | null;

/** A list as PostgreSQL writes one; the statement says of what by a cast. */
function plainParameter(parameter: Parameter): PlainParameter {
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
function begin<T>(sql: PostgresSql, body: (tx: TransactionSql) => Promise<T>): Promise<T> {
  const answerTime = answerTimes.get(sql);
  if (answerTime !== undefined) answerTime.underWay += 1;
  const ended = new Promise<T>((resolve, reject) => {
    let open: TransactionSql | undefined;
    let [isRefused, isOver] = [false, false];
    const late = new AbortController();
    const refused = new Promise<never>((_resolve, freePlace) => {
      late.signal.addEventListener('abort', () => freePlace(tooLate()));
    });
    refused.catch(() => undefined);
    const refuse = (error: StoaError): void => {
      isRefused = true;
      reject(error);
      setTimeout(() => late.abort(), placeKeptMs).unref();
    };
    /** Of what the driver sends by itself: BEGIN, and COMMIT or ROLLBACK after the body. */
    let stop = answerTime?.limit(refuse);
    const run = (tx: TransactionSql): Promise<T> =>
      new Promise((commit, rollBack) => {
        stop?.();
        open = tx;
        if (answerTime !== undefined) answerTimes.set(tx, answerTime);
        const end = (act: () => void): void => {
          if (isOver) return;
          stop = answerTime?.limit((error) => {
            refuse(error);
            // A connection that is only slow, and not lost after all, has to be free again some time.
            setImmediate(() => {
              if (!isOver) rollBack(error);
            });
          });
          if (!over.has(tx)) act();
        };
        const fail = (error: unknown): void => {
          if (lostCodes.test(causeCodeOf(error))) over.add(tx);
          end(() => rollBack(error));
        };
        // The turn of a transaction may come when nobody waits for it any more.
        if (isRefused) fail(tooLate());
        else body(tx).then((result) => end(() => commit(result)), fail);
      });
    const settle = (act: () => void): void => {
      isOver = true;
      stop?.();
      if (open !== undefined) over.add(open);
      act();
    };
    const start = async (): Promise<unknown> => {
      for (let attempt = 1; ; attempt += 1) {
        try {
          if (isRefused) throw tooLate();
          return await Promise.race([sql.begin(run), refused]);
        } catch (error) {
          const isStale = open === undefined && staleCodes.test(codeOf(error));
          if (!isStale || attempt > staleReportsMax(sql)) throw error;
        }
      }
    };
    // The driver's type unwraps promises inside arrays, which no body here returns.
    inPool(sql, start).then(
      (result) => settle(() => resolve(result as T)),
      (error: unknown) => settle(() => reject(error)),
    );
  });
  return ended.finally(() => {
    if (answerTime !== undefined) answerTime.underWay -= 1;
  });
}

function tooLate(): StoaError {
  return new StoaError('backend_unavailable', 'PostgreSQL was too late for this transaction.');
}

/** The connection is gone or going; its close follows for certain. */
const lostCodes = /^(ECONN|EPIPE|ETIMEDOUT|CONNECTION_|08|25P03|57P0[123])/;

const attemptsMax = 20;

/**
 * Runs a transaction, again when another one was in its way. `settled` throws what a statement failed with for which the
 * body did not wait: the transaction was rolled back then, although its end was asked for.
 */
export async function transaction<T>(
  sql: PostgresSql,
  body: (tx: TransactionSql) => Promise<T>,
  settled: (result: T) => Promise<void> = async () => undefined,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await observed(sql, 'transaction', begin(sql, body));
      await settled(result);
      return result;
    } catch (error) {
      if (!(error instanceof TryAgain) && !isConcurrency(error)) throw postgresError(error);
      if (attempt >= attemptsMax) throw hasLost(error) ? tooManyWriters(error) : postgresError(error);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 5 * attempt));
    }
  }
}

/** A transaction that lost against others each time; a row that is always in the way is something else. */
function hasLost(error: unknown): boolean {
  return error instanceof TryAgain || /^40(001|P01)$/.test(causeCodeOf(error));
}

function tooManyWriters(cause: unknown): StoaError {
  return new StoaError(
    'overloaded',
    `Other writers changed the same rows during each of ${attemptsMax} attempts. Nothing was written.`,
    { fix: 'Try again shortly.', cause },
  );
}

/** A statement came after one that had failed: what that one failed with says more. */
export function isAborted(error: unknown): boolean {
  return causeCodeOf(error) === '25P02';
}

/** Thrown by a transaction's body that found its ground changed. */
export class TryAgain extends Error {}

/** Serialization failures, deadlocks, and a row that another transaction made, or took away, between the look for it and what is built on that. */
export function isConcurrency(error: unknown): boolean {
  const code = causeCodeOf(error);
  return code === '40001' || code === '40P01' || code === '23505' || code === '23503';
}

/** The server is away, starting, stopping, has ended a silent transaction, has become a standby, or has no room for another connection. */
const unavailableCodes =
  /^(ECONN|EPIPE|ENOTFOUND|EAI_|ETIMEDOUT|EHOSTUNREACH|CONNECT|08|25006|25P03|57P|53300)/;

/** What the URL can have wrong, by the code of the database. */
const refusedConnections: ReadonlyMap<string, string> = new Map([
  ['3D000', 'Make the database with "createdb", or name another one at the end of the URL.'],
  ['28P01', 'Check the user and the password in the URL.'],
  ['28000', 'Check the user in the URL, and pg_hba.conf on the server.'],
]);

function postgresError(error: unknown): unknown {
  if (error instanceof StoaError || error instanceof TryAgain) return error;
  const code = codeOf(error);
  // All that the driver throws has a code; the rest is what a transaction's body threw.
  if (code === '') return error;
  if (unavailableCodes.test(code)) {
    return new StoaError('backend_unavailable', `PostgreSQL does not answer: ${messageOf(error) || code}.`, {
      fix: 'Check that the server runs and can be reached.',
      cause: error,
    });
  }
  if (code === '57014') {
    return new StoaError('backend_unavailable', `PostgreSQL ended a statement: ${messageOf(error)}.`, {
      fix: 'See what it waits for in pg_stat_activity, or raise statementSecondsMax.',
      cause: error,
    });
  }
  if (code === '53100')
    return new StoaError('disk_full', 'The disk of the PostgreSQL server is full.', { cause: error });
  const refused = refusedConnections.get(code);
  if (refused !== undefined)
    return new StoaError('invalid_config', `PostgreSQL refused the connection: ${messageOf(error)}.`, {
      fix: refused,
      cause: error,
    });
  return new StoaError('engine', `PostgreSQL reported: ${messageOf(error)}.`, { cause: error });
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : '';
}

function causeCodeOf(error: unknown): string {
  return codeOf(error instanceof StoaError ? error.cause : error);
}
