/** The servers of one Stoa: each notes every few seconds that it is alive, and what the others must know of it. */
import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { type PostgresSql, query } from '../connection.js';
import type { LiveServer } from '../../../operations/model.js';
import { version } from '../../../version.js';

export interface ServersOptions {
  readonly sql: PostgresSql;
  readonly keyIds: () => readonly string[];
  readonly onError: (error: unknown, about: string) => void;
}

const noteEveryMs = 2_000;
/** A server that has been silent for this long is not alive. */
const silentSeconds = 10;
/** A row of a server that did not end properly is removed after this. */
const forgottenSeconds = 3_600;
/** Leases are decided by the database's clock; tokens and signatures by the server's own. */
const clockDifferenceMsMax = 30_000;

export class Servers {
  readonly id = randomUUID();
  readonly #options: ServersOptions;
  #url: string | null = null;
  #timer: NodeJS.Timeout | undefined;
  #noting: Promise<void> = Promise.resolve();
  #isFailing = false;
  #isClockWarned = false;

  constructor(options: ServersOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    await this.#note();
    this.#timer = setInterval(() => {
      this.#noting = this.#note().then(
        () => {
          this.#isFailing = false;
        },
        (error: unknown) => {
          if (!this.#isFailing) this.#options.onError(error, 'noting that this server is alive');
          this.#isFailing = true;
        },
      );
    }, noteEveryMs);
    this.#timer.unref();
  }

  async listensAt(url: string): Promise<void> {
    this.#url = url;
    await this.#note();
  }

  async live(): Promise<LiveServer[]> {
    const rows = await query<Omit<LiveServer, 'clock_ahead_ms'> & { clock_ahead_ms: string }>(
      this.#options.sql,
      `SELECT id, host, process_id, version, url, clock_ahead_ms,
        extract(epoch FROM clock_timestamp() - started_at)::integer AS uptime_seconds
        FROM cluster.servers WHERE seen_at > clock_timestamp() - interval '${silentSeconds} seconds' ORDER BY started_at, id`,
    );
    return rows.map((row) => ({ ...row, clock_ahead_ms: Number(row.clock_ahead_ms) }));
  }

  /** Live servers that do not have a key. */
  async withoutKey(keyId: string): Promise<string[]> {
    const rows = await query<{ name: string }>(
      this.#options.sql,
      `SELECT coalesce(url, host || ' process ' || process_id) AS name FROM cluster.servers
        WHERE seen_at > clock_timestamp() - interval '${silentSeconds} seconds' AND NOT $1 = ANY (key_ids)`,
      [keyId],
    );
    return rows.map(({ name }) => name);
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#noting;
    try {
      await query(this.#options.sql, 'DELETE FROM cluster.servers WHERE id = $1', [this.id]);
    } catch (error) {
      this.#options.onError(error, 'removing this server from the list');
    }
  }

  async #note(): Promise<void> {
    const { sql, keyIds, onError } = this.#options;
    const [row] = await query<{ ahead_ms: string }>(
      sql,
      `WITH old AS (DELETE FROM cluster.servers WHERE seen_at < clock_timestamp() - interval '${forgottenSeconds} seconds')
      INSERT INTO cluster.servers (id, host, process_id, version, url, key_ids, clock_ahead_ms)
        VALUES ($1, $2, $3, $4, $5, $6::text[], $7 - floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint)
        ON CONFLICT (id) DO UPDATE SET url = excluded.url, key_ids = excluded.key_ids,
          clock_ahead_ms = excluded.clock_ahead_ms, seen_at = excluded.seen_at
        RETURNING clock_ahead_ms AS ahead_ms`,
      [this.id, hostname(), process.pid, version, this.#url, keyIds(), String(Date.now())],
    );
    const aheadMs = Number(row?.ahead_ms ?? 0);
    if (Math.abs(aheadMs) <= clockDifferenceMsMax || this.#isClockWarned) return;
    this.#isClockWarned = true;
    onError(
      new Error(`the clock of this server differs from the database's by ${Math.round(aheadMs / 1_000)} s`),
      'signatures may be refused as too old or too new; set the clocks with NTP',
    );
  }
}
