/** Detects a restored copy of the database: positions from before the restore are not valid in the copy. */
import { lockSql } from '../database/advisory-locks.js';
import { type PostgresSql, query, transaction } from '../database/connection.js';

/**
 * `pg_restore` and a new cluster change the system identifier or the oid of the table. A point-in-time
 * recovery and a failover change the timeline: the first eight characters of the name of the current WAL
 * file.
 */
const fingerprint = `
  SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
    left(pg_walfile_name(pg_current_wal_lsn()), 8),
    (SELECT oid FROM pg_database WHERE datname = current_database()),
    'feed.commits'::regclass::oid) AS database`;

/** The number of the current epoch. A fingerprint that differs from the stored one starts a new epoch. */
export async function currentEpoch(sql: PostgresSql): Promise<number> {
  const [here] = await query<{ database: string }>(sql, fingerprint);
  const database = here?.database ?? '';
  const [newest] = await query<{ epoch: number; database: string }>(
    sql,
    'SELECT epoch, database FROM feed.epochs ORDER BY epoch DESC LIMIT 1',
  );
  return newest?.database === database ? newest.epoch : startEpoch(sql, database);
}

/**
 * If several servers notice the difference at the same time, the first starts the epoch and the others read
 * it.
 */
async function startEpoch(sql: PostgresSql, database: string): Promise<number> {
  return transaction(sql, async (tx) => {
    await query(tx, lockSql('feed'));
    const [epoch] = await query<{ epoch: number }>(
      tx,
      `WITH newest AS (SELECT epoch, database FROM feed.epochs ORDER BY epoch DESC LIMIT 1),
        started AS (
          INSERT INTO feed.epochs (epoch, database, since_seq)
            SELECT coalesce((SELECT epoch FROM newest), 0) + 1, $1, last_seq FROM feed.extent
            WHERE NOT EXISTS (SELECT FROM newest WHERE newest.database = $1)
          RETURNING epoch)
      SELECT epoch FROM started UNION ALL SELECT epoch FROM newest WHERE database = $1`,
      [database],
    );
    return epoch?.epoch ?? 1;
  });
}
