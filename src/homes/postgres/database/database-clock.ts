/** The time of the database: servers that share one agree on it, whatever their own clocks say. */
import { type PostgresSql, query } from './connection.js';

const checkedEveryMs = 60_000;

/**
 * A column with the database's clock. Put it around a statement that locks: it is read when the locks are
 * held.
 */
export const clockColumn = 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS clock_ms';

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

  /** This server's estimate, without asking. */
  nowMs(): number {
    return Date.now() + (this.#skewMs?.() ?? this.#offsetMs);
  }

  /** A time that the database has read. */
  ofReading(databaseMs: number): number {
    return databaseMs + this.skewMs;
  }

  /** How far the times of this clock are from the database's; zero but in tests. */
  get skewMs(): number {
    return this.#skewMs?.() ?? 0;
  }

  /** Asks the database where that was long ago, or never. */
  async refresh(): Promise<void> {
    const askedMs = Date.now();
    if (askedMs - this.#checkedMs <= checkedEveryMs) return;
    const [row] = await query<{ clock_ms: string }>(this.#sql, `SELECT ${clockColumn}`);
    this.#checkedMs = Date.now();
    this.#offsetMs = Number(row?.clock_ms ?? askedMs) - Math.round((askedMs + this.#checkedMs) / 2);
  }
}
