/** The tables of locks. Primary keys begin with the owner, so that the tables can be distributed by owner. */
import type { DomainTables } from '../database/migrate.js';

const tables = `
  CREATE SCHEMA IF NOT EXISTS locks;

  -- One row for each user: it is locked while a lock is acquired, so of two acquisitions one waits.
  CREATE TABLE locks.fences (
    user_id text COLLATE "C" PRIMARY KEY,
    -- The readable id of the user.
    user_name text NOT NULL,
    -- The last fence that was given out.
    fence bigint NOT NULL
  );

  CREATE TABLE locks.locks (
    user_id text COLLATE "C" NOT NULL REFERENCES locks.fences (user_id),
    name text COLLATE "C" NOT NULL,
    holder text COLLATE "C" NOT NULL,
    fence bigint NOT NULL,
    note text NOT NULL,
    acquired_at timestamptz NOT NULL,
    renewed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    PRIMARY KEY (user_id, name)
  );
  CREATE INDEX locks_holder ON locks.locks (user_id, holder);
  CREATE INDEX locks_expiry ON locks.locks (expires_at)`;

export const locksTables: DomainTables = {
  domain: 'locks',
  about: 'the schema locks',
  migrations: [tables],
};
