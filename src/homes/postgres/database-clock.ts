/** The time of the database: servers that share one agree on it, whatever their own clocks say. */
import { type PostgresSql, query } from './connection.js';

const checkedEveryMs = 60_000;

export class DatabaseClock {
  readonly #sql: PostgresSql;
  #offsetMs = 0;
  #checkedMs = 0;

  constructor(sql: PostgresSql) {
    this.#sql = sql;
  }

  nowMs(): number {
    return Date.now() + this.#offsetMs;
  }

  /** Asks the database where that was long ago, or never. */
  async keepRight(): Promise<void> {
    const askedMs = Date.now();
    if (askedMs - this.#checkedMs <= checkedEveryMs) return;
    const [row] = await query<{ now: string }>(
      this.#sql,
      'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS now',
    );
    this.#checkedMs = Date.now();
    this.#offsetMs = Number(row?.now ?? askedMs) - Math.round((askedMs + this.#checkedMs) / 2);
  }
}
