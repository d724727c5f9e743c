/** A registry on a real PostgreSQL, with a clock that the test controls. */
import { checkCallerFence } from '../../../../src/homes/postgres/registry/fence.js';
import { documentsOf } from '../../../../src/homes/postgres/datastore/counts.js';
import { DatabaseClock } from '../../../../src/homes/postgres/database/database-clock.js';
import type { Change } from '../../../../src/core/change.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import { type PostgresSql, query } from '../../../../src/homes/postgres/database/connection.js';
import {
  limitStatements,
  closePostgres,
  openPostgres,
} from '../../../../src/homes/postgres/database/pool.js';
import { migrate } from '../../../../src/homes/postgres/database/migrate.js';
import { feedTables } from '../../../../src/homes/postgres/feed/schema.js';
import { answerTables } from '../../../../src/homes/postgres/write/kept-answers.js';
import {
  type PostgresRegistry,
  openPostgresRegistry,
} from '../../../../src/homes/postgres/registry/registry.js';
import { PostgresWriter } from '../../../../src/homes/postgres/write/writer.js';
import { type RegistryBench, startMs } from '../../../../src/registry/conformance/bench.js';
import { RegistryService } from '../../../../src/registry/service.js';
import { emptyPostgres } from '../../../servers/shared.js';

export interface PostgresRegistryBench extends RegistryBench {
  url: URL;
  sql: PostgresSql;
  port: PostgresRegistry;
  writer: PostgresWriter;
}

export interface PostgresBenchOptions {
  limits?: Partial<Limits>;
  /** Opens another server on the database of an existing bench. */
  url?: URL;
  /** Uses the database's clock, as in production. */
  realClock?: boolean;
}

export async function openPostgresRegistryBench(
  options: PostgresBenchOptions = {},
): Promise<PostgresRegistryBench> {
  const url = options.url ?? new URL((await emptyPostgres()).url);
  const limits = limitsWith(options.limits ?? {});
  const clock = { nowMs: startMs };
  const given = options.realClock === true ? undefined : () => clock.nowMs;
  const sql = await openPostgres(url, { limits, connectionsMax: 8 });
  await migrate(sql, answerTables);
  await migrate(sql, feedTables);
  const databaseClock = new DatabaseClock(sql);
  await databaseClock.refresh();
  const port = await openPostgresRegistry({
    sql,
    limits,
    nowMs: () => databaseClock.nowMs(),
    ...(given && { clock: given }),
  });
  limitStatements(sql, limits);
  const lost: string[] = [];
  port.onPresenceEnded.push(async (work, { record, meta }) => {
    work.announce({ domain: 'workspaces', kind: 'task.returned', id: 'task', user: meta.user, version: 1 });
    work.afterCommit(() => void lost.push(record.agent_id));
  });
  const writer = new PostgresWriter({
    sql,
    limits,
    clock: new DatabaseClock(sql, () => port.nowMs() - Date.now()),
    checkFence: (work, caller) => checkCallerFence(work, caller, given),
    agents: port.callers,
    checkTables: () => undefined,
    documentsOf,
    onCommitted: () => undefined,
    onError: () => undefined,
  });
  return {
    url,
    sql,
    port,
    writer,
    registry: new RegistryService({ writer, port, limits }),
    clock,
    lost,
    commits: async () =>
      (await query<{ changes: string }>(sql, 'SELECT changes FROM feed.incoming ORDER BY write_order')).map(
        // Only changes are written to this table.
        ({ changes }) => JSON.parse(changes) as Change[],
      ),
    pass: async (seconds) => {
      clock.nowMs += seconds * 1_000;
      await port.sweep(writer);
    },
    agentRows: async () =>
      (
        await query<{ row: string }>(
          sql,
          `SELECT 'agent ' || agent_id AS row FROM registry.agents
            UNION ALL SELECT 'session ' || session_id FROM registry.sessions
            UNION ALL SELECT 'link ' || identity FROM registry.identity_links
            UNION ALL SELECT 'owner ' || id FROM registry.owners
            UNION ALL SELECT 'count ' || user_id FROM registry.users WHERE agents <> 0`,
        )
      ).map(({ row }) => row),
    findings: async () => [
      ...(await query(
        sql,
        `SELECT 'agents of a user' AS wrong, u.user_id AS id FROM registry.users u
          WHERE u.agents <> (SELECT count(*) FROM registry.agents a WHERE a.user_id = u.user_id)
        UNION ALL SELECT 'active sessions of an agent', a.agent_id FROM registry.agents a
          WHERE a.active_sessions <> (SELECT count(*) FROM registry.sessions s
            WHERE s.user_id = a.user_id AND s.agent_id = a.agent_id AND s.status = 1)
        UNION ALL SELECT 'owner of an id', o.id FROM registry.owners o FULL JOIN (
            SELECT agent_id AS id, user_id FROM registry.agents
            UNION ALL SELECT session_id, user_id FROM registry.sessions
            UNION ALL SELECT 'identity:' || identity, user_id FROM registry.identity_links) things USING (id)
          WHERE o.user_id IS DISTINCT FROM things.user_id
        UNION ALL SELECT 'a lease without a timer', agent_id FROM registry.agents
          WHERE lease_holder IS NOT NULL AND lease_timer_at IS NULL`,
      )),
    ],
    close: () => closePostgres(sql, 5),
  };
}

/** Deletes all rows, so that the next bench starts with an empty home in the same database. */
export async function emptyTables(sql: PostgresSql): Promise<void> {
  await query(
    sql,
    `TRUNCATE registry.users, registry.owners, registry.agents, registry.sessions, registry.identity_links,
      registry.tokens, kept_answers, feed.incoming`,
  );
}
