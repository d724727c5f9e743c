/**
 * Sessions of MCP clients in PostgreSQL: any server answers a request in a session that another one opened.
 */
import type { Limits } from '../../../core/settings/limits.js';
import {
  type FoundMcpSession,
  type McpSessionStore,
  tooManySubscriptions,
} from '../../../identity/mcp-sessions/port.js';
import { lockSql } from '../database/advisory-locks.js';
import { type PostgresSql, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';
import { inSteps } from '../database/in-steps.js';
import { takeTurn } from '../database/turns.js';

export interface PostgresMcpSessionsOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  readonly onError: (error: unknown, about: string) => void;
}

/** A session in use is written this often, not with every request. */
const noteUseSecondsMax = 10;
const sweepSecondsMax = 30;
/** Cancellations that a session keeps: the server that runs the request looks twice a second. */
const cancelledKept = 100;

interface SessionRow {
  id: string;
  user_name: string;
  owner: string;
  client: string;
  agent: string;
  protocol_version: string;
  version: number;
  /** JSON; null if the reader knows the version. */
  subscriptions: string | null;
  cancelled: string | null;
  is_noted: boolean;
}

export class PostgresMcpSessions implements McpSessionStore {
  readonly #options: PostgresMcpSessionsOptions;

  constructor(options: PostgresMcpSessionsOptions) {
    this.#options = options;
  }

  readonly open: McpSessionStore['open'] = async ({ id, user, owner, client, agent, protocolVersion }) => {
    const { mcpSessionsMax, mcpSessionsPerUserMax } = this.#options.limits;
    return transaction(this.#options.sql, async (tx) => {
      // One at a time: two servers that count at once would both find room.
      await query(tx, lockSql('mcpSessions'));
      const ended = await query<{ id: string }>(
        tx,
        `DELETE FROM cluster.mcp_sessions WHERE id IN (SELECT id FROM cluster.mcp_sessions
          WHERE user_name = $1 ORDER BY used_at DESC, id OFFSET $2) RETURNING id`,
        [user, Math.max(0, mcpSessionsPerUserMax - 1)],
      );
      const others = await query<{ id: string }>(
        tx,
        `DELETE FROM cluster.mcp_sessions WHERE id IN (SELECT id FROM cluster.mcp_sessions
          ORDER BY used_at DESC, id OFFSET $1) RETURNING id`,
        [Math.max(0, mcpSessionsMax - 1)],
      );
      await query(
        tx,
        `INSERT INTO cluster.mcp_sessions (id, user_name, owner, client, agent, protocol_version)
          VALUES ($1, $2, $3, $4, $5, $6)`,
        [id, user, owner, client, agent, protocolVersion],
      );
      return [...ended, ...others].map((row) => row.id);
    });
  };

  readonly find: McpSessionStore['find'] = async (known) => {
    const { sql, limits, onError } = this.#options;
    const rows = await query<SessionRow>(
      sql,
      `SELECT s.id, user_name, owner, client, agent, protocol_version, s.version,
        CASE WHEN s.version <> known.version THEN to_json(subscriptions)::text END AS subscriptions,
        CASE WHEN s.version <> known.version THEN cancelled::text END AS cancelled,
        used_at > clock_timestamp() - $3 * interval '1 second' AS is_noted
        FROM unnest($1::uuid[], $2::integer[]) AS known (id, version)
          JOIN cluster.mcp_sessions s ON s.id = known.id
        WHERE used_at > clock_timestamp() - $4 * interval '1 second'`,
      [
        [...known.keys()],
        Array.from(known.values(), String),
        Math.min(noteUseSecondsMax, limits.mcpSessionIdleSeconds / 4),
        limits.mcpSessionIdleSeconds,
      ],
    );
    const unnoted = rows.flatMap(({ id, is_noted }) => (is_noted ? [] : [id]));
    // Not awaited: requests are answered also while the database is read-only.
    if (unnoted.length > 0)
      this.#noteUse(unnoted).catch((error: unknown) => onError(error, 'noting the use of MCP sessions'));
    return rows.map(sessionOf);
  };

  readonly subscribe: McpSessionStore['subscribe'] = async (id, uri) => {
    const { sql, limits } = this.#options;
    const added = await query(
      sql,
      `UPDATE cluster.mcp_sessions SET subscriptions = array_append(subscriptions, $2), version = version + 1
        WHERE id = $1 AND NOT $2 = ANY (subscriptions) AND cardinality(subscriptions) < $3 RETURNING 1`,
      [id, uri, limits.mcpSubscriptionsMax],
    );
    if (added.length > 0) return;
    const without = await query(
      sql,
      'SELECT FROM cluster.mcp_sessions WHERE id = $1 AND NOT $2 = ANY (subscriptions)',
      [id, uri],
    );
    if (without.length > 0) throw tooManySubscriptions(limits);
  };

  readonly unsubscribe: McpSessionStore['unsubscribe'] = async (id, uri) => {
    await query(
      this.#options.sql,
      `UPDATE cluster.mcp_sessions SET subscriptions = array_remove(subscriptions, $2), version = version + 1
        WHERE id = $1 AND $2 = ANY (subscriptions)`,
      [id, uri],
    );
  };

  readonly cancel: McpSessionStore['cancel'] = async (id, requestId) => {
    await query(
      this.#options.sql,
      `UPDATE cluster.mcp_sessions SET version = version + 1, cancelled = (
          SELECT jsonb_agg(entry) FROM (SELECT entry FROM jsonb_array_elements(
            jsonb_build_array(jsonb_build_object('version', version + 1, 'request', $2::text)) || cancelled
          ) WITH ORDINALITY AS entries (entry, place) ORDER BY place LIMIT $3) AS newest)
        WHERE id = $1`,
      // As text in the JSON, which cannot hold every character of an id.
      [id, JSON.stringify(requestId), cancelledKept],
    );
  };

  readonly rename: McpSessionStore['rename'] = async (id, agent) => {
    await query(this.#options.sql, 'UPDATE cluster.mcp_sessions SET agent = $2 WHERE id = $1', [id, agent]);
  };

  readonly end: McpSessionStore['end'] = async (id) => {
    await query(this.#options.sql, 'DELETE FROM cluster.mcp_sessions WHERE id = $1', [id]);
  };

  /** Removes what is idle: one server in each interval. */
  async sweep(isOver: () => boolean): Promise<void> {
    const { sql, limits } = this.#options;
    const seconds = Math.min(sweepSecondsMax, limits.mcpSessionIdleSeconds);
    if (!(await takeTurn(sql, 'mcp sessions', seconds * 1_000))) return;
    await inSteps(sql, 'DELETE FROM cluster.mcp_sessions', {
      table: 'cluster.mcp_sessions',
      where: `used_at <= clock_timestamp() - $1 * interval '1 second'`,
      parameters: [limits.mcpSessionIdleSeconds],
      rowsMax: limits.sweepStepMax,
      isOver,
    });
  }

  /** A row that is locked is being noted by another server. */
  async #noteUse(ids: readonly string[]): Promise<void> {
    await query(
      this.#options.sql,
      `UPDATE cluster.mcp_sessions SET used_at = clock_timestamp() WHERE id IN (
        SELECT id FROM cluster.mcp_sessions WHERE id = ANY ($1::uuid[]) FOR UPDATE SKIP LOCKED)`,
      [ids],
    );
  }
}

function sessionOf(row: SessionRow): FoundMcpSession {
  const { id, owner, client, agent, version, subscriptions, cancelled } = row;
  return {
    id,
    owner,
    client,
    agent,
    version,
    user: row.user_name,
    protocolVersion: row.protocol_version,
    changed:
      subscriptions === null || cancelled === null
        ? null
        : {
            // The columns hold what `subscribe` and `cancel` wrote.
            subscriptions: JSON.parse(subscriptions) as string[],
            cancelled: (JSON.parse(cancelled) as { version: number; request: string }[]).map((entry) => ({
              version: entry.version,
              requestId: JSON.parse(entry.request) as string | number,
            })),
          },
  };
}
