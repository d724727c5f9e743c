/**
 * The servers of one Stoa: each notes every few seconds that it is alive, and what the others must know of
 * it.
 */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { Periodic } from '../../../core/waiting/periodic.js';
import { clockSql } from '../database/database-clock.js';
import { type PostgresSql, query } from '../database/connection.js';
import { poolUse } from '../database/pool.js';
import type { LiveServer, ServerLoad } from '../../../operations/model.js';
import { version } from '../../../version.js';
import { clockDifferenceMsMax } from './requirements.js';
import { isLiveServer } from './schema.js';

export interface ServersOptions {
  /** The pool whose use is reported. */
  readonly pool: PostgresSql;
  /** Not the pool: a server whose pool is busy is alive. */
  readonly sql: PostgresSql;
  readonly keyIds: () => readonly string[];
  /** The number of the change feed that this server has reached. */
  readonly feedSeq: () => number;
  readonly onError: (error: unknown, about: string) => void;
}

const noteEveryMs = 2_000;
/** A row of a server that did not end properly is removed after this. */
const forgottenSeconds = 3_600;

/** Columns that the driver gives as text. */
type WideNumber = 'clock_ahead_ms' | 'feed_lag_commits' | 'feed_lag_ms';

export class Servers {
  readonly id = randomUUID();
  readonly #options: ServersOptions;
  #url: string | null = null;
  readonly #noting: Periodic;
  #isClockWarned = false;
  #feedLag = { commits: 0, ms: 0 };

  constructor(options: ServersOptions) {
    this.#options = options;
    this.#noting = new Periodic({
      everyMs: noteEveryMs,
      run: () => this.#note(),
      onError: (error) => options.onError(error, 'noting that this server is alive'),
    });
  }

  async start(): Promise<void> {
    await this.#note();
    this.#noting.start();
  }

  load(): ServerLoad {
    const { commits, ms } = this.#feedLag;
    return { pool: poolUse(this.#options.pool), feedLagCommits: commits, feedLagMs: ms };
  }

  async listensAt(url: string): Promise<void> {
    this.#url = url;
    await this.#note();
  }

  async live(): Promise<LiveServer[]> {
    const rows = await query<LiveServer & Record<WideNumber, string>>(
      this.#options.sql,
      `SELECT id, host, process_id, version, url, clock_ahead_ms, feed_lag_commits, feed_lag_ms,
        pool_busy, pool_total,
        extract(epoch FROM clock_timestamp() - started_at)::integer AS uptime_seconds,
        (extract(epoch FROM clock_timestamp() - seen_at) * 1000)::integer AS seen_ms_ago
        FROM cluster.servers WHERE ${isLiveServer}
          ORDER BY started_at, id`,
    );
    return rows.map((row) => ({
      ...row,
      clock_ahead_ms: Number(row.clock_ahead_ms),
      feed_lag_commits: Number(row.feed_lag_commits),
      feed_lag_ms: Number(row.feed_lag_ms),
    }));
  }

  /** Live servers that do not have a key. */
  async withoutKey(keyId: string): Promise<string[]> {
    const rows = await query<{ name: string }>(
      this.#options.sql,
      `SELECT coalesce(url, host || ' process ' || process_id) AS name FROM cluster.servers
        WHERE ${isLiveServer} AND NOT $1 = ANY (key_ids)`,
      [keyId],
    );
    return rows.map(({ name }) => name);
  }

  async close(): Promise<void> {
    await this.#noting.close();
    try {
      await query(this.#options.sql, 'DELETE FROM cluster.servers WHERE id = $1', [this.id]);
    } catch (error) {
      this.#options.onError(error, 'removing this server from the list');
    }
  }

  async #note(): Promise<void> {
    const { pool, sql, keyIds, feedSeq, onError } = this.#options;
    const { busy, total } = poolUse(pool);
    const [row] = await query<{ ahead_ms: string; lag_commits: string; lag_ms: string }>(
      sql,
      `WITH old AS (DELETE FROM cluster.servers
        WHERE seen_at < clock_timestamp() - interval '${forgottenSeconds} seconds')
      INSERT INTO cluster.servers (id, host, process_id, version, url, key_ids, pool_busy, pool_total,
          clock_ahead_ms, feed_lag_commits, feed_lag_ms)
        SELECT $1, $2, $3, $4, $5, $6::text[], $7, $8, $9 - clock.ms, greatest(0, last_seq - $10),
          coalesce((SELECT greatest(0, clock.ms - at_ms) FROM feed.commits WHERE seq = $10 + 1), 0)
          FROM feed.extent, (SELECT ${clockSql} AS ms) AS clock
        ON CONFLICT (id) DO UPDATE SET
          url = excluded.url, key_ids = excluded.key_ids, seen_at = excluded.seen_at,
          pool_busy = excluded.pool_busy, pool_total = excluded.pool_total,
          clock_ahead_ms = excluded.clock_ahead_ms,
          feed_lag_commits = excluded.feed_lag_commits, feed_lag_ms = excluded.feed_lag_ms
        RETURNING clock_ahead_ms AS ahead_ms, feed_lag_commits AS lag_commits, feed_lag_ms AS lag_ms`,
      [
        this.id,
        hostname(),
        process.pid,
        version,
        this.#url,
        keyIds(),
        busy,
        total,
        String(Date.now()),
        String(feedSeq()),
      ],
    );
    this.#feedLag = { commits: Number(row?.lag_commits ?? 0), ms: Number(row?.lag_ms ?? 0) };
    const aheadMs = Number(row?.ahead_ms ?? 0);
    if (Math.abs(aheadMs) <= clockDifferenceMsMax || this.#isClockWarned) return;
    this.#isClockWarned = true;
    onError(
      new Error(`the clock of this server differs from the database's by ${Math.round(aheadMs / 1_000)} s`),
      'signatures may be refused as too old or too new; set the clocks with NTP',
    );
  }
}
