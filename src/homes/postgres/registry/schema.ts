/**
 * The tables of the registry and of tokens in PostgreSQL. Primary keys begin with the owner, so that the
 * tables can be distributed by owner.
 */
import type { DomainTables } from '../database/migrate.js';

/**
 * An agent and its lease are one row, so one row lock covers both and one statement reads both under the
 * lock. A heartbeat changes no indexed column (it leaves `lease_timer_at` as it is), so PostgreSQL can do a
 * heap-only update without touching an index.
 */
const tables = `
  CREATE SCHEMA IF NOT EXISTS registry;

  CREATE TABLE registry.users (
    user_id text COLLATE "C" PRIMARY KEY,
    -- The readable id of the user.
    name text NOT NULL,
    email text NOT NULL,
    created_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    agents integer NOT NULL DEFAULT 0 CHECK (agents >= 0),
    -- Null: the default quota applies.
    agents_max bigint,
    -- The highest fencing number of the user's deleted agents. It is never issued again.
    deleted_fence bigint NOT NULL DEFAULT 0
  );

  -- The owner of each id of an agent, session, identity or token. In a distributed database this table is on
  -- one node, or copied to every node.
  CREATE TABLE registry.owners (
    id text COLLATE "C" PRIMARY KEY,
    user_id text COLLATE "C" NOT NULL
  );

  CREATE TABLE registry.agents (
    user_id text COLLATE "C" NOT NULL REFERENCES registry.users (user_id),
    agent_id text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    status smallint NOT NULL,
    cpu_millicores bigint NOT NULL,
    memory_mb bigint NOT NULL,
    runtime_version text NOT NULL,
    labels json NOT NULL,
    error_message text,
    version bigint NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    last_heartbeat_at timestamptz,
    status_since timestamptz NOT NULL,
    active_at timestamptz NOT NULL,
    activity_timer_at timestamptz,
    active_sessions integer NOT NULL CHECK (active_sessions >= 0),
    -- Null until the lease gets its first holder.
    lease_fence bigint,
    lease_holder text,
    lease_renewed_at timestamptz,
    lease_expires_at timestamptz,
    lease_timer_at timestamptz,
    lease_lost boolean,
    -- Held through the agent's own calls, not through heartbeats.
    lease_implicit boolean,
    PRIMARY KEY (user_id, agent_id)
  );
  CREATE UNIQUE INDEX agents_name ON registry.agents (user_id, name);
  -- Agents without a holder of their lease: the quota does not count those that hold nothing.
  CREATE INDEX agents_absent ON registry.agents (user_id)
    WHERE lease_holder IS NULL AND lease_fence IS NOT NULL;
  CREATE INDEX agents_status ON registry.agents (status, user_id, agent_id);
  CREATE INDEX agents_labels ON registry.agents USING gin ((labels::jsonb));
  CREATE INDEX agents_activity_timer ON registry.agents (activity_timer_at)
    WHERE activity_timer_at IS NOT NULL;
  CREATE INDEX agents_lease_timer ON registry.agents (lease_timer_at) WHERE lease_timer_at IS NOT NULL;

  CREATE TABLE registry.sessions (
    user_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    session_id text COLLATE "C" NOT NULL,
    status smallint NOT NULL,
    created_at timestamptz NOT NULL,
    closed_at timestamptz,
    PRIMARY KEY (user_id, agent_id, session_id),
    FOREIGN KEY (user_id, agent_id) REFERENCES registry.agents (user_id, agent_id)
  );
  CREATE INDEX sessions_id ON registry.sessions (user_id, session_id);
  CREATE INDEX sessions_status ON registry.sessions (user_id, agent_id, status, session_id);

  CREATE TABLE registry.identity_links (
    user_id text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    identity text COLLATE "C" NOT NULL,
    PRIMARY KEY (user_id, agent_id, identity),
    FOREIGN KEY (user_id, agent_id) REFERENCES registry.agents (user_id, agent_id)
  );
  CREATE UNIQUE INDEX identity_links_identity ON registry.identity_links (user_id, identity);

  CREATE TABLE registry.tokens (
    user_id text COLLATE "C" NOT NULL,
    token_id text COLLATE "C" NOT NULL,
    -- The readable id of the user.
    user_name text NOT NULL,
    name text NOT NULL,
    purpose text NOT NULL,
    is_operator boolean NOT NULL,
    -- The token that a console session was made with.
    granted_by text,
    -- SHA-256 of the whole token.
    hash text NOT NULL,
    can_write boolean NOT NULL,
    namespaces json,
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    PRIMARY KEY (user_id, token_id)
  );
  CREATE INDEX tokens_expiry ON registry.tokens (expires_at) WHERE expires_at IS NOT NULL`;

export const registryTables: DomainTables = {
  domain: 'registry',
  about: 'the schema registry, for users, agents, sessions and tokens',
  migrations: [tables],
};
