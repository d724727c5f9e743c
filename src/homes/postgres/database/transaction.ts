/** Transactions on PostgreSQL, which run again after a conflict with another one. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { TransactionSql } from 'postgres';
import { StoaError } from '../../../core/errors.js';
import { type PostgresSql, isStale, placeKeptMs } from './connection.js';
import { TryAgain, causeCodeOf, isConcurrency, isLostRace, lostCodes, postgresError } from './errors.js';
import { type StatementContext, addTransaction, contextOf, inPool, observed } from './pool.js';

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
      await sleep(Math.random() * 5 * attempt);
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

async function begin<T>(sql: PostgresSql, body: (tx: TransactionSql) => Promise<T>): Promise<T> {
  const { answerTime } = contextOf(sql);
  if (answerTime !== undefined) answerTime.underWay += 1;
  try {
    return await new Attempt(sql, body).run();
  } finally {
    if (answerTime !== undefined) answerTime.underWay -= 1;
  }
}

type Act = () => void;

/**
 * One attempt of a transaction. If the connection is lost, the driver rejects at once. It would still send
 * later statements of the body, and the ROLLBACK: on the closed socket, which ends the process, or on a
 * connection that another transaction has by now. So after a lost connection, `query` never returns to the
 * body.
 */
class Attempt<T> {
  readonly #sql: PostgresSql;
  readonly #body: (tx: TransactionSql) => Promise<T>;
  /** Set when the driver has given the attempt a connection. */
  #open: StatementContext | undefined;
  #isRefused = false;
  #isOver = false;
  #reject: (error: unknown) => void = () => undefined;
  readonly #late = new AbortController();
  /** Rejects when a refused attempt must give back its place in the pool. */
  readonly #placeFreed: Promise<never>;
  /** Ends the time limit of BEGIN, and later of COMMIT or ROLLBACK, which the driver sends itself. */
  #stopLimit: Act | undefined;

  constructor(sql: PostgresSql, body: (tx: TransactionSql) => Promise<T>) {
    this.#sql = sql;
    this.#body = body;
    this.#placeFreed = new Promise((_resolve, reject) => {
      this.#late.signal.addEventListener('abort', () => reject(tooLate()));
    });
    this.#placeFreed.catch(() => undefined);
  }

  run(): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      this.#limit((error) => this.#refuse(error));
      inPool(this.#sql, () => this.#start()).then(
        // The driver's type unwraps promises inside arrays, which no body here returns.
        (result) => this.#settle(() => resolve(result as T)),
        (error: unknown) => this.#settle(() => reject(error)),
      );
    });
  }

  async #start(): Promise<unknown> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        if (this.#isRefused) throw tooLate();
        return await Promise.race([this.#sql.begin((tx) => this.#runBody(tx)), this.#placeFreed]);
      } catch (error) {
        if (this.#open !== undefined || !isStale(this.#sql, error, attempt)) throw error;
      }
    }
  }

  #runBody(tx: TransactionSql): Promise<T> {
    return new Promise((commit, rollBack) => {
      this.#stopLimit?.();
      const open = addTransaction(this.#sql, tx);
      this.#open = open;
      const fail = (error: unknown): void => {
        if (lostCodes.test(causeCodeOf(error))) open.isEnded = true;
        this.#end(open, () => rollBack(error), rollBack);
      };
      // The caller may have given up while the transaction waited for a connection, which is new then. Also
      // if the place is free by now, only the rollback returns the connection to the pool.
      if (this.#isRefused) rollBack(tooLate());
      else this.#body(tx).then((result) => this.#end(open, () => commit(result), rollBack), fail);
    });
  }

  /** The body has ended: the driver commits or rolls back. */
  #end(open: StatementContext, act: Act, rollBack: (error: unknown) => void): void {
    if (this.#isOver) return;
    this.#limit((error) => {
      this.#refuse(error);
      // If the connection is only slow, the rollback returns it to the pool.
      setImmediate(() => {
        if (!this.#isOver) rollBack(error);
      });
    });
    if (open.isEnded !== true) act();
  }

  #limit(onLate: (error: StoaError) => void): void {
    this.#stopLimit = contextOf(this.#sql).answerTime?.limit(onLate);
  }

  /** The caller gets the error now, and the place is free a moment later. */
  #refuse(error: StoaError): void {
    this.#isRefused = true;
    this.#reject(error);
    setTimeout(() => this.#late.abort(), placeKeptMs).unref();
  }

  #settle(act: Act): void {
    this.#isOver = true;
    this.#stopLimit?.();
    if (this.#open !== undefined) this.#open.isEnded = true;
    act();
  }
}

function tooLate(): StoaError {
  return new StoaError('backend_unavailable', 'PostgreSQL started this transaction after its time limit.');
}
