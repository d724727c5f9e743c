/** The tables of commits in PostgreSQL: messages that wait for delivery, and the bytes of their authors. */
import { byteWindowMs } from '../../../messaging/rooms/clock.js';
import type { DomainTables } from '../database/migrate.js';

/** The minute in which the bytes of an author are counted. */
export const byteWindow = `interval '${byteWindowMs} milliseconds'`;

/**
 * A row is written in the transaction of its commit. The state `waiting` becomes `delivered` or
 * `undeliverable`.
 */
const outboxTables = `
  CREATE TABLE commit_outbox (
    seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    delivery uuid NOT NULL UNIQUE,
    -- The room or inbox. Messages with the same destination are delivered in order.
    destination text NOT NULL,
    message json NOT NULL,
    user_id text NOT NULL,
    -- Whether Redis counted the bytes of the message when the commit was made.
    is_counted boolean NOT NULL DEFAULT false,
    state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'undeliverable')),
    attempts integer NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    next_attempt_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at timestamptz,
    -- Why the last attempt failed.
    reason text,
    message_id text,
    ts_ms bigint
  );
  CREATE INDEX commit_outbox_waiting ON commit_outbox (destination, seq) WHERE state = 'waiting';
  CREATE INDEX commit_outbox_done ON commit_outbox (done_at) WHERE done_at IS NOT NULL;

  -- Bytes of room messages that an author put into commits while Redis did not answer, in the minute that began at
  -- began_at.
  CREATE TABLE commit_bytes (
    author uuid PRIMARY KEY,
    began_at timestamptz NOT NULL,
    bytes bigint NOT NULL
  );`;

export const commitTables: DomainTables = {
  domain: 'commits',
  about: 'the tables commit_outbox and commit_bytes',
  migrations: [outboxTables],
};
