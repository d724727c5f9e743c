/** Connections to PostgreSQL. JSON and times are read as text; errors become errors of Stoa (`errors.ts`). */
import type { PendingQuery, Sql, TransactionSql } from 'postgres';
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { importOptional } from '../../../core/optional-package.js';
import { type OnCall, timedCall } from '../../../core/timed-call.js';
import { Places } from '../../../core/waiting/places.js';
import { AnswerTime, serverLimitMs } from './answer-time.js';
import {
  TryAgain,
  causeCodeOf,
  codeOf,
  isConcurrency,
  isLostRace,
  lostCodes,
  postgresError,
  readOnlyDatabase,
} from './errors.js';

export type PostgresSql = Sql;

/** A query runs on the pool or in one transaction. */
export type Queryable = Sql | TransactionSql;

export type Parameter = string | number | boolean | null | readonly (string | null)[];

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

/**
 * The places of each pool. A statement waits here for a connection, not in the driver: if the driver has to
 * send a BEGIN after about a hundred other statements of one connection, it does not reserve the connection.
 * The transaction then stays open under the statements of other callers.
 */
const pools = new WeakMap<Queryable, Places>();

export function poolUse(sql: PostgresSql): PoolUse {
  const { busy, waiting, count: total } = pools.get(sql) ?? { busy: 0, waiting: 0, count: 0 };
  return { busy, waiting, total };
}

/**
 * Runs work that needs its own connection. A statement of a transaction uses the connection of the
 * transaction.
 */
function inPool<T>(sql: Queryable, work: () => Promise<T>): Promise<T> {
  return pools.get(sql)?.run(work) ?? work();
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
  const postgres = await importOptional<typeof import('postgres')>('postgres', 3);
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
    // during that query, no code catches the error.
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
  pools.set(pool, new Places(connectionsMax));
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
  return limits === undefined ? {} : { statement_timeout: serverLimitMs(limits.statementSecondsMax) };
}

/** A statement with more parameters is rarely sent twice with the same text, so it is not prepared. */
const preparedParametersMax = 1_000;

export async function query<Row extends object>(
  sql: Queryable,
  text: string,
  parameters: readonly Parameter[] = [],
): Promise<readonly Row[]> {
  if (endedTransactions.has(sql)) return new Promise(() => undefined);
  const statement = new Statement<Row>(sql, text, parameters.map(plainParameter));
  try {
    return await observed(sql, 'statement', () => {
      const answered = inPool(sql, () => statement.run());
      return answerTimes.get(sql)?.within(answered, () => statement.withdraw()) ?? answered;
    });
  } catch (error) {
    throw postgresError(error);
  }
}

/** Throws if the database does not answer, or refuses writes. */
export async function checkWritable(sql: Queryable): Promise<void> {
  const [row] = await query<{ read_only: string }>(
    sql,
    "SELECT current_setting('transaction_read_only') AS read_only",
  );
  if (row?.read_only === 'on') throw readOnlyDatabase();
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

  /** Called when the caller has given up. A statement that still waits for a connection is then not sent. */
  withdraw(): void {
    this.#isWithdrawn = true;
    setTimeout(this.#onWithdrawn, placeKeptMs).unref();
    if (this.#pending !== undefined && !wasSent(this.#pending)) void Object.assign(this.#pending, nothing);
  }
}

/**
 * Sent in place of a withdrawn statement. If the driver opens a connection for a statement that was cancelled
 * meanwhile, it sends nothing, waits for an answer, and never uses the connection. It fails, so a transaction
 * is not committed without the statement.
 */
const nothing = {
  strings: ["DO $$ BEGIN RAISE 'its caller has given up' USING ERRCODE = 'query_canceled'; END $$"],
  args: [],
};

/**
 * The driver reports a lost connection a second time: to the next caller that gets this connection, before it
 * has sent anything. So each connection of a pool can fail one caller without a reason.
 */
const staleCodes = /^(57P0[12]|CONNECTION_CLOSED)$/;

/**
 * The driver never ends some statements of lost connections. Their place becomes free this long after their
 * caller has given up. By then their connection is closed.
 */
const placeKeptMs = 1_000;

/** A transaction has one connection, and ends with it. */
function staleReportsMax(sql: Queryable): number {
  return pools.get(sql)?.count ?? 0;
}

/** The driver sets the state of a statement when it sends the statement. */
function wasSent(pending: object): boolean {
  return 'state' in pending && pending.state !== null;
}

/** Runs the work and reports its time to the observer of the pool. */
async function observed<T>(
  sql: Queryable,
  verb: 'statement' | 'transaction',
  work: () => PromiseLike<T>,
): Promise<T> {
  const onCall = observers.get(sql);
  return onCall === undefined ? work() : timedCall(onCall, verb, work);
}

type PlainParameter = string | number | boolean | null;

function plainParameter(parameter: Parameter): PlainParameter {
  return typeof parameter !== 'object' || parameter === null ? parameter : listText(parameter);
}

/** A list in PostgreSQL's text format. The statement casts it to the type of its items. */
export function listText(items: readonly (string | null)[]): string {
  const texts = items.map((item) => (item === null ? 'NULL' : `"${item.replaceAll(/["\\]/g, '\\$&')}"`));
  return `{${texts.join(',')}}`;
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
    /** Ends the time limit of BEGIN, and later of COMMIT or ROLLBACK, which the driver sends itself. */
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
            // If the connection is only slow, the rollback returns it to the pool.
            setImmediate(() => {
              if (!isOver) rollBack(error);
            });
          });
          if (!endedTransactions.has(tx)) act();
        };
        const fail = (error: unknown): void => {
          if (lostCodes.test(causeCodeOf(error))) endedTransactions.add(tx);
          end(() => rollBack(error));
        };
        // The caller may have given up while the transaction waited for a connection, which is new then. Also
        // if the place is free by now, only the rollback returns the connection to the pool.
        if (isRefused) rollBack(tooLate());
        else body(tx).then((result) => end(() => commit(result)), fail);
      });
    const settle = (act: () => void): void => {
      isOver = true;
      stop?.();
      if (open !== undefined) endedTransactions.add(open);
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
  return new StoaError('backend_unavailable', 'PostgreSQL started this transaction after its time limit.');
}

const attemptsMax = 20;

/**
 * Runs a transaction, and runs it again after a conflict with another one, `attempts` times in all.
 * `awaitSent` throws the error of a statement that the body sent without waiting for it: that transaction was
 * rolled back instead of committed.
 */
export async function transaction<T>(
  sql: PostgresSql,
  body: (tx: TransactionSql) => Promise<T>,
  awaitSent: (result: T) => Promise<void> = async () => undefined,
  attempts = attemptsMax,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await observed(sql, 'transaction', () => begin(sql, body));
      await awaitSent(result);
      return result;
    } catch (error) {
      if (!(error instanceof TryAgain) && !isConcurrency(error)) throw postgresError(error);
      if (attempt >= attempts) throw isLostRace(error) ? lostEachTime(error) : postgresError(error);
      await new Promise((resolve) => setTimeout(resolve, Math.random() * 5 * attempt));
    }
  }
}

function lostEachTime(cause: unknown): StoaError {
  return new StoaError(
    'overloaded',
    `The write conflicted with other writes to the same rows ${attemptsMax} times. Nothing was written.`,
    { fix: 'Try again shortly.', cause },
  );
}
