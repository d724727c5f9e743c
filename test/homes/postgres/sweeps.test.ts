/**
 * Ten servers do no more sweeping than one: the database counts the statements that come while nobody asks
 * for anything.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type PostgresSql, query } from '../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../src/homes/postgres/database/pool.js';
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

interface Sweeping {
  /** Statements by their text. */
  calls: Map<string, number>;
  /** How often each turn was taken. */
  turns: Map<string, number>;
  /** The shortest time between two turns of one name. */
  shortestMs: Map<string, number>;
}

/** What happens in a quiet time. */
async function sweeping(): Promise<Sweeping> {
  // What a start does once is over.
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  await query(sql, 'TRUNCATE turns_taken');
  await query(sql, 'SELECT pg_stat_statements_reset()');
  await new Promise((resolve) => setTimeout(resolve, watchedMs));
  const rows = await query<{ query: string; calls: string }>(
    sql,
    "SELECT query, sum(calls) AS calls FROM pg_stat_statements WHERE query !~* '^(begin|commit|rollback|set|fetch)' GROUP BY query",
  );
  const turns = await query<{ name: string; turns: string; shortest: string | null }>(
    sql,
    `SELECT name, count(*) AS turns, extract(epoch FROM min(gap)) * 1000 AS shortest
      FROM (SELECT name, at - lag(at) OVER (PARTITION BY name ORDER BY at) AS gap FROM turns_taken) AS taken
      GROUP BY name`,
  );
  return {
    calls: new Map(
      rows
        .filter((row) => !ownWork.test(row.query))
        .map((row) => [row.query.slice(0, 120), Number(row.calls)]),
    ),
    turns: new Map(turns.map((row) => [row.name, Number(row.turns)])),
    shortestMs: new Map(turns.map((row) => [row.name, Number(row.shortest ?? Infinity)])),
  };
}

function total(calls: ReadonlyMap<string, number>): number {
  return [...calls.values()].reduce((sum, one) => sum + one, 0);
}

function perTurn({ calls, turns }: Sweeping): number {
  return total(calls) / total(turns);
}

/** Turns and not seconds are compared: a machine that is late has fewer of them. */
it('four servers sweep no more often than one', async () => {
  await addServer();
  await query(sql, 'CREATE TABLE turns_taken (name text NOT NULL, at timestamptz NOT NULL)');
  await query(
    sql,
    `CREATE FUNCTION note_turn() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO turns_taken VALUES (NEW.name, NEW.taken_at); RETURN NULL; END $$`,
  );
  await query(
    sql,
    'CREATE TRIGGER note_turn AFTER INSERT OR UPDATE ON sweep_turns FOR EACH ROW EXECUTE FUNCTION note_turn()',
  );
  const alone = await sweeping();
  expect([...alone.calls.keys()].join('\n')).toMatch(/registry\.tokens/);
  expect([...alone.calls.keys()].join('\n')).toMatch(/commit_outbox/);
  expect([...alone.calls.keys()].join('\n')).toMatch(/feed\.added_entries/);
  for (let more = 0; more < 3; more += 1) await addServer();
  const together = await sweeping();
  const seen = JSON.stringify(
    [alone, together].map(({ calls, turns }) => [[...calls], [...turns]]),
    null,
    1,
  );
  expect(perTurn(together), seen).toBeLessThanOrEqual(perTurn(alone) * 1.4);
  // A statement that each server sends for itself comes four times as often.
  const mostTurns = Math.max(...together.turns.values());
  for (const [text, calls] of together.calls)
    expect(calls, text).toBeLessThanOrEqual(Math.max((alone.calls.get(text) ?? 0) * 2, mostTurns) + 2);
  // A turn can come a tenth of its interval early.
  for (const [name, shortestMs] of together.shortestMs)
    expect(shortestMs, name).toBeGreaterThanOrEqual((alone.shortestMs.get(name) ?? 0) * 0.7);
});
