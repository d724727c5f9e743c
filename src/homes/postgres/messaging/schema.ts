/**
 * The tables of messaging in PostgreSQL. `agents` and `rooms` have exactly the seed's columns, because an
 * AICQ server may have made them. Everything else is in tables of the schema `messaging`.
 */
import { StoaError } from '../../../core/errors.js';
import { globalRoomAlias, globalRoomId } from '../../../messaging/identities/uuid.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { type DomainTables, migrate } from '../database/migrate.js';
import { totalsTables } from './totals.js';

/** Without the seed's `idx_agents_public_key`: the unique constraint has the same index. */
const seedTables = `
  CREATE EXTENSION IF NOT EXISTS pgcrypto;
  CREATE TABLE IF NOT EXISTS agents (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    public_key TEXT NOT NULL UNIQUE,
    name TEXT,
    email TEXT,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
  );
  CREATE INDEX IF NOT EXISTS idx_agents_created_at ON agents (created_at);
  CREATE TABLE IF NOT EXISTS rooms (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    name TEXT NOT NULL,
    is_private BOOLEAN NOT NULL DEFAULT FALSE,
    key_hash TEXT,
    created_by UUID REFERENCES agents(id),
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    last_active_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    message_count BIGINT NOT NULL DEFAULT 0
  );
  CREATE INDEX IF NOT EXISTS idx_rooms_name ON rooms (name);
  CREATE INDEX IF NOT EXISTS idx_rooms_last_active ON rooms (last_active_at);
  CREATE INDEX IF NOT EXISTS idx_rooms_is_private ON rooms (is_private) WHERE is_private = FALSE;
  INSERT INTO rooms (id, name, is_private) VALUES ('${globalRoomId}', '${globalRoomAlias}', FALSE) ON CONFLICT DO NOTHING`;

const ownTables = `
  CREATE SCHEMA IF NOT EXISTS messaging;

  -- Every key that an identity has had. Identities of an AICQ server begin with the key that they have.
  CREATE TABLE messaging.agent_keys (
    public_key TEXT PRIMARY KEY,
    agent_id UUID NOT NULL REFERENCES agents(id) ON DELETE CASCADE,
    from_ms BIGINT NOT NULL,
    proof JSON
  );
  CREATE INDEX idx_agent_keys_agent ON messaging.agent_keys (agent_id, from_ms);
  INSERT INTO messaging.agent_keys (public_key, agent_id, from_ms)
    SELECT public_key, id, (extract(epoch FROM created_at) * 1000)::bigint FROM agents;

  CREATE TABLE messaging.agent_facts (
    agent_id UUID PRIMARY KEY REFERENCES agents(id) ON DELETE CASCADE,
    proven BOOLEAN NOT NULL DEFAULT FALSE,
    link JSON,
    -- True for an imported identity whose key another server keeps.
    server_kept BOOLEAN NOT NULL DEFAULT FALSE
  );
  CREATE TABLE messaging.kept_agents (
    owner TEXT PRIMARY KEY,
    agent_id UUID NOT NULL UNIQUE REFERENCES agents(id) ON DELETE CASCADE,
    sealed_seed TEXT NOT NULL
  );
  CREATE TABLE messaging.room_facts (
    room_id UUID PRIMARY KEY REFERENCES rooms(id) ON DELETE CASCADE,
    -- The user that owns the room; null for a room of all users. A room of a user is private in the table rooms,
    -- with or without a key, so that another AICQ server on these tables does not show it. For the same reason
    -- its number of messages and its last activity are here and not there.
    owner TEXT,
    -- The name in the table rooms, here for the index.
    name TEXT COLLATE "C",
    message_count BIGINT NOT NULL DEFAULT 0,
    last_active_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    -- Null: messages are kept for the default time of the settings.
    retention_seconds BIGINT,
    version BIGINT NOT NULL DEFAULT 1,
    -- The time of the newest message when the room was imported.
    last_ts_ms BIGINT
  );
  CREATE UNIQUE INDEX room_owner ON messaging.room_facts (owner, name) WHERE owner IS NOT NULL`;

export const messagingTables: DomainTables = {
  domain: 'messaging',
  about: 'the schema messaging',
  migrations: [`${seedTables}; ${ownTables}; ${totalsTables}`],
};

/** Adds the tables of messaging. Tables of an AICQ server keep their columns and rows. */
export async function migrateMessaging(sql: PostgresSql): Promise<void> {
  await checkSeedTables(sql);
  await migrate(sql, messagingTables);
}

const seedColumns: Readonly<Record<string, readonly string[]>> = {
  agents: [
    'id uuid',
    'public_key text',
    'name text',
    'email text',
    'created_at timestamptz',
    'updated_at timestamptz',
  ],
  rooms: [
    'id uuid',
    'name text',
    'is_private bool',
    'key_hash text',
    'created_by uuid',
    'created_at timestamptz',
    'last_active_at timestamptz',
    'message_count int8',
  ],
};

/** Describes in sentences what `migrateMessaging` would add. Changes nothing. */
export async function messagingPlan(sql: PostgresSql): Promise<string[]> {
  await checkSeedTables(sql);
  const [counts] = await query<{ agents: boolean; rooms: boolean; ours: boolean }>(
    sql,
    `SELECT to_regclass('agents') IS NOT NULL AS agents, to_regclass('rooms') IS NOT NULL AS rooms,
      to_regclass('messaging.agent_keys') IS NOT NULL AS ours`,
  );
  if (counts?.ours === true) return [];
  const kept = async (table: 'agents' | 'rooms'): Promise<string> => {
    const [row] = await query<{ count: string }>(sql, `SELECT count(*) AS count FROM ${table}`);
    return `Keep the table ${table} with its ${row?.count ?? 0} rows.`;
  };
  return [
    ...(counts?.agents === true ? [await kept('agents')] : ['Create the table agents.']),
    ...(counts?.rooms === true ? [await kept('rooms')] : ['Create the table rooms.']),
    'Create the schema messaging with key history, links, kept keys, room facts and totals.',
    'Add triggers to agents and rooms that keep the totals.',
  ];
}

/** Throws if a table has the name of a table of the seed but other columns: it belongs to another program. */
async function checkSeedTables(sql: Queryable): Promise<void> {
  const rows = await query<{ table_name: string; column_name: string; udt_name: string }>(
    sql,
    `SELECT c.relname AS table_name, a.attname AS column_name, t.typname AS udt_name
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid JOIN pg_type t ON t.oid = a.atttypid
      WHERE c.oid IN (to_regclass('agents'), to_regclass('rooms')) AND a.attnum > 0 AND NOT a.attisdropped`,
  );
  for (const [table, columns] of Object.entries(seedColumns)) {
    const found = rows.filter(({ table_name }) => table_name === table);
    const names = new Set(found.map(({ column_name, udt_name }) => `${column_name} ${udt_name}`));
    const missing = columns.filter((column) => !names.has(column));
    if (found.length > 0 && missing.length > 0)
      throw new StoaError(
        'invalid_data',
        `The database has a table "${table}" that is not AICQ's: the columns ${missing.join(', ')} are missing or have other types.`,
        { fix: 'Use another database, or rename that table.' },
      );
  }
}
