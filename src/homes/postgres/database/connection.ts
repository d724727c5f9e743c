/** Statements on the connections of a pool. Errors become errors of Stoa (`errors.ts`). */
import type { PendingQuery, Sql, TransactionSql } from 'postgres';
import { codeOf, postgresError, readOnlyDatabase } from './errors.js';
import { contextOf, inPool, observed } from './pool.js';

export type PostgresSql = Sql;

/** A query runs on the pool or in one transaction. */
export type Queryable = Sql | TransactionSql;

export type Parameter = string | number | boolean | null | readonly (string | null)[];

/** A statement with more parameters is rarely sent twice with the same text, so it is not prepared. */
const preparedParametersMax = 1_000;

export async function query<Row extends object>(
  sql: Queryable,
  text: string,
  parameters: readonly Parameter[] = [],
): Promise<readonly Row[]> {
  const { isEnded, answerTime } = contextOf(sql);
  if (isEnded === true) return new Promise(() => undefined);
  const statement = new Statement<Row>(sql, text, parameters.map(plainParameter));
  try {
    return await observed(sql, 'statement', () => {
      const answered = inPool(sql, () => statement.run());
      return answerTime?.within(answered, () => statement.withdraw()) ?? answered;
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
  readonly #sql: Queryable;
  #pending: PendingQuery<Row[]> | undefined;
  #isWithdrawn = false;
  readonly #withdrawn: Promise<never[]>;
  #onWithdrawn: () => void = () => undefined;

  constructor(sql: Queryable, text: string, values: PlainParameter[]) {
    const prepare = values.length <= preparedParametersMax;
    this.#start = () => sql.unsafe<Row[]>(text, values, { prepare });
    this.#sql = sql;
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
        if (!isStale(this.#sql, error, attempt) || wasSent(pending)) throw error;
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

/** Whether the error may be such a report. A transaction has one connection, and ends with it. */
export function isStale(sql: Queryable, error: unknown, attempt: number): boolean {
  return staleCodes.test(codeOf(error)) && attempt <= (contextOf(sql).places?.count ?? 0);
}

/**
 * The driver never ends some statements of lost connections. Their place becomes free this long after their
 * caller has given up. By then their connection is closed.
 */
export const placeKeptMs = 1_000;

/** The driver sets the state of a statement when it sends the statement. */
function wasSent(pending: object): boolean {
  return 'state' in pending && pending.state !== null;
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
