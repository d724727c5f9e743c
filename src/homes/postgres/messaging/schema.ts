/** The tables of messaging in PostgreSQL: the seed's two, and beside them what the seed has no column for. */
import { StoaError } from '../../../core/errors.js';
import { globalRoomAlias, globalRoomId } from '../../../messaging/uuid.js';
import { type PostgresSql, query, transaction } from '../connection.js';
import { totalsTables } from './totals.js';
import { migrate } from '../migrate.js';

export const messagingSchema = 'messaging';

/** `idx_agents_public_key` of the seed is left out: the unique constraint is the same index. */
const seedTables = `
  CREATE EXTENSION IF NOT EXISTS pgcrypto;
  CREATE TABLE agents (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    public_key TEXT NOT NULL UNIQUE,
    name TEXT,
    email TEXT,
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    updated_at TIMESTAMPTZ NOT NULL DEFAULT NOW()
  );
  CREATE INDEX idx_agents_created_at ON agents (created_at);
  CREATE TABLE rooms (
    id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
    name TEXT NOT NULL,
    is_private BOOLEAN NOT NULL DEFAULT FALSE,
    key_hash TEXT,
    created_by UUID REFERENCES agents(id),
    created_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    last_active_at TIMESTAMPTZ NOT NULL DEFAULT NOW(),
    message_count BIGINT NOT NULL DEFAULT 0
  );
  CREATE INDEX idx_rooms_name ON rooms (name);
  CREATE INDEX idx_rooms_last_active ON rooms (last_active_at);
  CREATE INDEX idx_rooms_is_private ON rooms (is_private) WHERE is_private = FALSE;
  INSERT INTO rooms (id, name, is_private) VALUES ('${globalRoomId}', '${globalRoomAlias}', FALSE)`;

/** Key history, links and server-kept keys live in tables of their own, so that the seed's stay the seed's. */
const identityTables = `
  CREATE TABLE agent_keys (
    public_key TEXT PRIMARY KEY,
    agent_id UUID NOT NULL REFERENCES agents(id) ON DELETE CASCADE,
    from_ms BIGINT NOT NULL,
    proof JSON
  );
  CREATE INDEX idx_agent_keys_agent ON agent_keys (agent_id, from_ms);
  CREATE TABLE agent_facts (
    agent_id UUID PRIMARY KEY REFERENCES agents(id) ON DELETE CASCADE,
    proven BOOLEAN NOT NULL DEFAULT FALSE,
    link JSON
  );
  CREATE TABLE kept_agents (
    owner TEXT PRIMARY KEY,
    agent_id UUID NOT NULL UNIQUE REFERENCES agents(id) ON DELETE CASCADE,
    sealed_seed TEXT NOT NULL
  )`;

/** What an export knows and the seed's tables do not: an identity whose key another server keeps, and how far a room's time had come. */
const importedTables = `
  ALTER TABLE agent_facts ADD COLUMN server_kept BOOLEAN NOT NULL DEFAULT FALSE;
  CREATE TABLE room_facts (
    room_id UUID PRIMARY KEY REFERENCES rooms(id) ON DELETE CASCADE,
    last_ts_ms BIGINT NOT NULL
  )`;

const steps = [seedTables, identityTables, importedTables, totalsTables];

/** Makes the schema and brings its tables to the newest step. */
export async function migrateMessagingUp(sql: PostgresSql): Promise<void> {
  const [row] = await query<{ schema: string }>(sql, 'SHOW search_path').then((rows) =>
    rows.map((found) => ({ schema: Object.values(found)[0] as string })),
  );
  const schema = row?.schema ?? messagingSchema;
  // IF NOT EXISTS still collides when two servers start on an empty database at once.
  await transaction(sql, async (tx) => {
    await query(tx, "SELECT pg_advisory_xact_lock(hashtext('stoa_messaging_schema'))");
    await tx.unsafe(`CREATE SCHEMA IF NOT EXISTS ${quoted(schema)}`);
  });
  await migrate(sql, 'messaging', steps);
}

function quoted(name: string): string {
  const bare = name.replaceAll('"', '');
  if (!/^[a-z_][a-z0-9_]*$/i.test(bare))
    throw new StoaError('invalid_config', `"${bare}" cannot name the schema of messaging.`);
  return `"${bare}"`;
}
