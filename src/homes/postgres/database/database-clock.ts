/** The clock of the database, which all servers share. Their own clocks may differ, and may be set. */
import { type Parameter, type PostgresSql, query } from './connection.js';

/** The database's clock in SQL, in milliseconds since 1970. */
export const clockSql = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint';

/** The clock as a column of the statement around one that locks rows: it is read when the rows are locked. */
export const clockColumn = `${clockSql} AS clock_ms`;

export class DatabaseClock {
  readonly #sql: PostgresSql;
  readonly #skewMs: (() => number) | undefined;
  /** How far the database's clock is ahead of `performance.now()`, which a step of this server's clock does not move. */
  #offsetMs = Date.now() - performance.now();

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
    return this.#skewMs === undefined
      ? Math.floor(performance.now() + this.#offsetMs)
      : Date.now() + this.#skewMs();
  }

  /** The time for a reading of the database clock. */
  ofReading(databaseMs: number): number {
    return databaseMs + this.skewMs;
  }

  /** The difference between this clock and the database's; 0 except in tests. */
  get skewMs(): number {
    return this.#skewMs?.() ?? 0;
  }

  /** Compares this server's clock with the database's. `also` is a further column, with its parameters. */
  async refresh(also?: {
    readonly column: string;
    readonly parameters: readonly Parameter[];
  }): Promise<void> {
    const sentMs = performance.now();
    const [row] = await query<{ clock_ms: string }>(
      this.#sql,
      `SELECT ${clockColumn}${also === undefined ? '' : `, ${also.column}`}`,
      also?.parameters,
    );
    if (row === undefined) return;
    const reading = { sentMs, databaseMs: Number(row.clock_ms), answeredMs: performance.now() };
    this.#offsetMs = offsetOf(reading, this.#offsetMs);
  }
}

/** A reading of the database clock, with this server's times of the question and of the answer. */
export interface ClockReading {
  readonly sentMs: number;
  readonly databaseMs: number;
  readonly answeredMs: number;
}

/**
 * How far the database clock is ahead of this server's. The database read its clock at some moment between question and
 * answer, and either may have waited: of the offsets that are possible, the one that is closest to the known offset.
 */
export function offsetOf({ sentMs, databaseMs, answeredMs }: ClockReading, knownMs = 0): number {
  return Math.max(databaseMs - answeredMs, Math.min(databaseMs - sentMs, knownMs));
}
