/** Whose turn it is to sweep: servers share the work of the clock, so that ten of them do no more of it than one. */
import { type PostgresSql, query } from './connection.js';
import { type Migration, migrate } from './migrate.js';

const turnTables = `CREATE TABLE sweep_turns (name text PRIMARY KEY, taken_at timestamptz NOT NULL)`;

export const turnMigrations: readonly Migration[] = [turnTables];

export function migrateTurns(sql: PostgresSql): Promise<void> {
  return migrate(sql, 'turns', turnMigrations);
}

/** Timers of one server do not fire on the dot: a turn is free again a little earlier than its interval. */
const earlyShare = 0.9;

/** True for one server in each interval. One that dies after it loses the turn, not the work: the next interval is another's. */
export async function takeTurn(sql: PostgresSql, name: string, intervalMs: number): Promise<boolean> {
  const taken = await query(
    sql,
    // Who comes too early only reads: a conflict would lock the row, and write that down.
    `WITH due AS (SELECT clock_timestamp() - $2::double precision * interval '1 millisecond' AS at)
    INSERT INTO sweep_turns AS t (name, taken_at) SELECT $1, clock_timestamp() FROM due
        WHERE NOT EXISTS (SELECT FROM sweep_turns WHERE name = $1 AND taken_at > due.at)
      ON CONFLICT (name) DO UPDATE SET taken_at = excluded.taken_at
        WHERE t.taken_at <= excluded.taken_at - $2::double precision * interval '1 millisecond' RETURNING 1`,
    [name, Math.round(intervalMs * earlyShare)],
  );
  return taken.length > 0;
}
