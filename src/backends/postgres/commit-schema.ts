/** The tables of commits in PostgreSQL: messages on their way out, and answers for repeats. */
import { type PostgresSql, query, transaction } from './connection.js';
import { migrate } from './migrate.js';

/** A row is written with the commit that it belongs to; `waiting` ends as `delivered` or `undeliverable`. */
const outboxTables = `
  CREATE TABLE commit_outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery uuid NOT NULL UNIQUE,
    -- The messaging that it is meant for: servers with the same one deliver for each other.
    store text NOT NULL,
    -- The room or inbox, within which the order is kept.
    place text NOT NULL,
    message json NOT NULL,
    user_id text NOT NULL,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'undeliverable')),
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at timestamptz,
    -- What stood in the way at the last attempt.
    reason text,
    message_id text,
    ts_ms bigint
  );
  CREATE INDEX commit_outbox_waiting ON commit_outbox (store, place, seq) WHERE state = 'waiting';
  CREATE INDEX commit_outbox_done ON commit_outbox (done_at) WHERE done_at IS NOT NULL;

  CREATE TABLE commit_answers (
    key text PRIMARY KEY,
    fingerprint text NOT NULL,
    results json NOT NULL,
    expires_at timestamptz NOT NULL
  );
  CREATE INDEX commit_answers_expiry ON commit_answers (expires_at)`;

const steps = [
  { up: outboxTables, down: 'DROP TABLE IF EXISTS commit_answers; DROP TABLE IF EXISTS commit_outbox' },
];

export function migrateCommitsUp(sql: PostgresSql): Promise<void> {
  return migrate(
    sql,
    'commits',
    steps.map(({ up }) => up),
  );
}

/** Takes the tables away again, with every message that still waits in them. */
export async function migrateCommitsDown(sql: PostgresSql): Promise<void> {
  await transaction(sql, async (tx) => {
    for (const { down } of steps.toReversed()) await tx.unsafe(down);
    await query(tx, 'DELETE FROM stoa_migrations WHERE domain = $1', ['commits']);
  });
}
