/** The clock of the database, which all servers share. Their own clocks may differ. */
import { type PostgresSql, query } from './connection.js';

const checkedEveryMs = 60_000;

/** The database's clock in SQL, in milliseconds since 1970. */
export const clockSql = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** The clock as a column of the statement around one that locks rows: it is read when the rows are locked. */
export const clockColumn = `${clockSql} AS clock_ms`;

export class DatabaseClock {
  readonly #sql: PostgresSql;
  readonly #skewMs: (() => number) | undefined;
  #offsetMs = 0;
  #checkedMs = 0;

  /**
   * Tests turn the clock with `skewMs`: it is added to this server's clock, and to every reading of the
   * database.
   */
  constructor(sql: PostgresSql, skewMs?: () => number) {
    this.#sql = sql;
    this.#skewMs = skewMs;
  }

  /** This server's estimate of the database clock, without a query. */
  nowMs(): number {
    return Date.now() + (this.#skewMs?.() ?? this.#offsetMs);
  }

  /** The time for a reading of the database clock. */
  ofReading(databaseMs: number): number {
    return databaseMs + this.skewMs;
  }

  /** The difference between this clock and the database's; 0 except in tests. */
  get skewMs(): number {
    return this.#skewMs?.() ?? 0;
  }

  /** Reads the database clock if the last reading is old or missing. */
  async refresh(): Promise<void> {
    const askedMs = Date.now();
    if (askedMs - this.#checkedMs <= checkedEveryMs) return;
    const [row] = await query<{ clock_ms: string }>(this.#sql, `SELECT ${clockColumn}`);
    this.#checkedMs = Date.now();
    this.#offsetMs = Number(row?.clock_ms ?? askedMs) - Math.round((askedMs + this.#checkedMs) / 2);
  }
}
