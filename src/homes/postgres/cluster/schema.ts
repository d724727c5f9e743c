/** What all servers of one Stoa share beside its records: its name, the operator's token, keys and the list of servers. */
import type { PostgresSql } from '../connection.js';
import { type Migration, migrate } from '../migrate.js';

const tables = `
  CREATE SCHEMA IF NOT EXISTS cluster;

  -- store_id, operator_token_hash, rekeying.
  CREATE TABLE cluster.facts (name text PRIMARY KEY, value text NOT NULL);
  INSERT INTO cluster.facts VALUES ('store_id', gen_random_uuid()::text);

  -- A check value for each key that a secret may be encrypted with, never the key.
  CREATE TABLE cluster.secret_keys (
    key_id text PRIMARY KEY,
    check_value text NOT NULL,
    noted_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );

  CREATE TABLE cluster.servers (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    process_id integer NOT NULL,
    version text NOT NULL,
    url text,
    key_ids text[] NOT NULL,
    clock_ahead_ms bigint NOT NULL,
    -- Commits that the server did not know of, and the age of the oldest.
    feed_lag_commits bigint NOT NULL,
    feed_lag_ms bigint NOT NULL,
    pool_busy integer NOT NULL,
    pool_total integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp()
  )`;

export const clusterMigrations: readonly Migration[] = [tables];

export function migrateCluster(sql: PostgresSql): Promise<void> {
  return migrate(sql, 'cluster', clusterMigrations);
}
