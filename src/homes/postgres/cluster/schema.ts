/**
 * What all servers of one Stoa share beside its records: its name, the operator's token, keys, the list of
 * servers and MCP sessions.
 */
import type { DomainTables } from '../database/migrate.js';

const tables = `
  CREATE SCHEMA IF NOT EXISTS cluster;

  -- store_id, operator_token_hash, rekeying, move.
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
  );

  -- Sessions of MCP clients. An id alone opens nothing: a request needs the credentials of the owner too.
  CREATE TABLE cluster.mcp_sessions (
    id uuid NOT NULL,
    user_name text NOT NULL,
    owner text NOT NULL,
    client text NOT NULL,
    -- The name of the agent that the session is.
    agent text NOT NULL,
    protocol_version text NOT NULL,
    version integer NOT NULL DEFAULT 1,
    subscriptions text[] NOT NULL DEFAULT '{}',
    cancelled jsonb NOT NULL DEFAULT '[]',
    used_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (user_name, id)
  );
  CREATE INDEX mcp_sessions_id ON cluster.mcp_sessions (id);
  CREATE INDEX mcp_sessions_user ON cluster.mcp_sessions (user_name, used_at);
  CREATE INDEX mcp_sessions_used ON cluster.mcp_sessions (used_at)`;

/** A server that has been silent for this long is not alive. */
const silentSeconds = 10;
export const isLiveServer = `seen_at > clock_timestamp() - interval '${silentSeconds} seconds'`;

export const clusterTables: DomainTables = {
  domain: 'cluster',
  about: 'the schema cluster, for the servers, their keys and the operator token',
  migrations: [tables],
};
