/** Periodic work is done by one server in each interval, so ten servers do no more of it than one. */
import { type PostgresSql, query } from './connection.js';
import type { DomainTables } from './migrate.js';

const tables = `CREATE TABLE sweep_turns (name text PRIMARY KEY, taken_at timestamptz NOT NULL)`;

export const turnTables: DomainTables = {
  domain: 'turns',
  about: 'the table sweep_turns',
  migrations: [tables],
};

/** Timers fire a little early or late, so a turn is free again shortly before its interval ends. */
const earlyShare = 0.9;

/**
 * A server whose last work failed takes only a turn that the others have left free for this many intervals. It may have
 * lost Redis while the others have not.
 */
const failingIntervals = 2;

/**
 * True for one server in each interval. If that server dies, another server gets the turn of the next
 * interval. A turn in the future was taken before the clock of the database was set back: it counts for nothing.
 */
export async function takeTurn(
  sql: PostgresSql,
  name: string,
  intervalMs: number,
  hasFailed = false,
): Promise<boolean> {
  const taken = await query(
    sql,
    // A server that is too early only reads: ON CONFLICT would lock the row, which is a write to disk.
    `WITH due AS (SELECT clock_timestamp() - $2::double precision * interval '1 millisecond' AS at)
    INSERT INTO sweep_turns AS t (name, taken_at) SELECT $1, clock_timestamp() FROM due
        WHERE NOT EXISTS (SELECT FROM sweep_turns WHERE name = $1 AND taken_at > due.at AND taken_at <= clock_timestamp())
      ON CONFLICT (name) DO UPDATE SET taken_at = excluded.taken_at
        WHERE t.taken_at <= excluded.taken_at - $2::double precision * interval '1 millisecond'
          OR t.taken_at > clock_timestamp() RETURNING 1`,
    [name, Math.round(intervalMs * (hasFailed ? failingIntervals : earlyShare))],
  );
  return taken.length > 0;
}
