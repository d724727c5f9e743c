/**
 * Ten servers do no more sweeping than one: the database counts the statements that come while nobody asks
 * for anything.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PostgresSql, openPostgres, query } from '../../../src/homes/postgres/database/connection.js';
import { type Stoa, openStoa } from '../../../src/index.js';
import type { HaltingServer } from '../../servers/child.js';
import { start as startPostgres } from '../../servers/postgres.js';
import { start as startRedis } from '../../servers/redis.js';
import { noteServer, sharedKeys } from '../../servers/shared.js';

/**
 * What each server has to do for itself: it listens, looks how far the feed is, says that it is alive, and
 * asks whose turn it is.
 */
const ownWork =
  /pg_notify|number_commits|cluster\.servers|sweep_turns|stoa_migrations|pg_stat_statements|clock_timestamp\(\)\) \* \$?\d+\)::bigint AS/;
const watchedMs = 4_000;

let postgres: HaltingServer;
let redis: HaltingServer;
let sql: PostgresSql;
const servers: Stoa[] = [];

beforeAll(async () => {
  [postgres, redis] = await Promise.all([
    startPostgres({ settings: { shared_preload_libraries: 'pg_stat_statements' } }),
    startRedis(),
  ]);
  await Promise.all([postgres, redis].map(({ describe }) => noteServer(describe)));
  sql = await openPostgres(new URL(postgres.url), { connectionsMax: 1 });
  await query(sql, 'CREATE EXTENSION pg_stat_statements');
});
afterAll(async () => {
  for (const stoa of servers) await stoa.close();
  await sql?.end();
  await redis?.stop();
  await postgres?.stop();
});

async function addServer(): Promise<void> {
  servers.push(
    await openStoa({
      postgres: postgres.url,
      redis: redis.url,
      secretKeys: sharedKeys,
      onError: () => undefined,
    }),
  );
}

/** Statements by their text, of a quiet time. */
async function sweeping(): Promise<Map<string, number>> {
  // What a start does once is over.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await query(sql, 'SELECT pg_stat_statements_reset()');
  await new Promise((resolve) => setTimeout(resolve, watchedMs));
  const rows = await query<{ query: string; calls: string }>(
    sql,
    "SELECT query, sum(calls) AS calls FROM pg_stat_statements WHERE query !~* '^(begin|commit|rollback|set|fetch)' GROUP BY query",
  );
  return new Map(
    rows.filter((row) => !ownWork.test(row.query)).map((row) => [row.query.slice(0, 120), Number(row.calls)]),
  );
}

function total(calls: ReadonlyMap<string, number>): number {
  return [...calls.values()].reduce((sum, one) => sum + one, 0);
}

it('four servers sweep no more than one', async () => {
  await addServer();
  const alone = await sweeping();
  expect([...alone.keys()].join('\n')).toMatch(/registry\.tokens/);
  expect([...alone.keys()].join('\n')).toMatch(/commit_outbox/);
  expect([...alone.keys()].join('\n')).toMatch(/feed\.added_entries/);
  for (let more = 0; more < 3; more += 1) await addServer();
  const together = await sweeping();
  // A turn can come a tenth of its interval early.
  expect(total(together), JSON.stringify([[...alone], [...together]], null, 1)).toBeLessThanOrEqual(
    total(alone) * 1.4,
  );
});
