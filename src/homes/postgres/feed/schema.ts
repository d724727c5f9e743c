/** The tables of the change feed in PostgreSQL. In a distributed database they stay on one node. */
import { clockSql } from '../database/database-clock.js';
import { lockNumber } from '../database/advisory-locks.js';
import type { DomainTables } from '../database/migrate.js';

/**
 * A write inserts one row into `incoming` with its last statement, when it holds all its row locks.
 * `write_order` is drawn at that moment. If two writes change the same object, the second draws its number
 * only after the first has committed, so its number is greater. A snapshot that has the second row in
 * `incoming` therefore also has the first, or the first is already numbered.
 *
 * `number_commits` reads the visible rows in this order and gives them the next whole numbers. An advisory
 * lock lets one server at a time do this; the statement after the lock has a fresh snapshot. A row of an open
 * transaction is not visible yet: no reader waits for it, and no reader skips it.
 *
 * Rejected alternatives: with the order of a sequence alone, a reader can skip a transaction that commits
 * late. With the order of transaction ids below `pg_snapshot_xmin`, any open transaction in the instance
 * stops all readers. With a lock around every commit, writers wait for each other.
 */
const tables = `
  CREATE SCHEMA IF NOT EXISTS feed;

  CREATE TABLE feed.incoming (
    write_order bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at_ms bigint NOT NULL DEFAULT ${clockSql},
    changes json NOT NULL
  );

  CREATE TABLE feed.commits (
    seq bigint PRIMARY KEY,
    at_ms bigint NOT NULL,
    size_bytes integer NOT NULL,
    changes json NOT NULL
  );

  -- Which database this is. pg_restore and a new cluster change the system identifier or the oid of the table. A
  -- point-in-time recovery and a failover change the timeline: the first eight characters of the name of the current
  -- WAL file.
  CREATE FUNCTION feed.database_now() RETURNS text LANGUAGE sql AS $$
    SELECT concat_ws(' ', (SELECT system_identifier FROM pg_control_system()),
      left(pg_walfile_name(pg_current_wal_lsn()), 8),
      (SELECT oid FROM pg_database WHERE datname = current_database()),
      'feed.commits'::regclass::oid)
  $$;

  CREATE FUNCTION feed.new_epoch() RETURNS text LANGUAGE sql AS $$
    SELECT left(replace(gen_random_uuid()::text, '-', ''), 12)
  $$;

  -- One row: the first and last number in feed.commits. When the table is empty, first_seq is last_seq + 1. Numbers are
  -- valid in their epoch only. Its name is random, so that no other Stoa and no copy of this one has the same.
  CREATE TABLE feed.extent (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    first_seq bigint NOT NULL DEFAULT 1,
    last_seq bigint NOT NULL DEFAULT 0,
    size_bytes bigint NOT NULL DEFAULT 0,
    epoch text NOT NULL DEFAULT feed.new_epoch(),
    database text NOT NULL DEFAULT feed.database_now()
  );
  INSERT INTO feed.extent DEFAULT VALUES;

  -- The epoch. In another database than the stored one, a restored copy, this starts a new epoch. Every
  -- read compares: 36 µs, and no reader sees numbers of a copy before a server has noticed the restore.
  CREATE FUNCTION feed.current_epoch() RETURNS text LANGUAGE plpgsql AS $$
  DECLARE
    known feed.extent;
  BEGIN
    SELECT * INTO known FROM feed.extent;
    -- A standby has no current WAL file, and cannot be written to.
    IF pg_is_in_recovery() OR known.database = feed.database_now() THEN
      RETURN known.epoch;
    END IF;
    UPDATE feed.extent SET epoch = feed.new_epoch(), database = feed.database_now()
      WHERE database = known.database;
    -- If several servers notice the difference at the same time, one of them starts the epoch.
    RETURN (SELECT epoch FROM feed.extent);
  END $$;

  -- Entries of the feed outbox in Redis that are in the feed already. An entry that is read twice is added
  -- once.
  CREATE TABLE feed.added_entries (
    entry text PRIMARY KEY,
    added_at timestamptz NOT NULL DEFAULT clock_timestamp()
  );
  CREATE INDEX added_entries_age ON feed.added_entries (added_at);

  CREATE FUNCTION feed.number_commits(rows_max integer)
  RETURNS TABLE (epoch text, last_seq bigint, numbered integer) LANGUAGE plpgsql AS $$
  DECLARE
    added integer := 0;
  BEGIN
    IF EXISTS (SELECT FROM feed.incoming) THEN
      PERFORM pg_advisory_xact_lock(${lockNumber('feed')});
      WITH taken AS (
        DELETE FROM feed.incoming WHERE write_order IN (
          SELECT write_order FROM feed.incoming ORDER BY write_order LIMIT rows_max)
        RETURNING write_order, at_ms, changes
      ), fresh AS (
        INSERT INTO feed.commits (seq, at_ms, size_bytes, changes)
          SELECT extent.last_seq + row_number() OVER (ORDER BY taken.write_order),
            taken.at_ms, octet_length(taken.changes::text), taken.changes
          FROM taken CROSS JOIN feed.extent
        RETURNING seq, feed.commits.size_bytes
      )
      UPDATE feed.extent
        SET last_seq = extent.last_seq + totals.count, size_bytes = extent.size_bytes + totals.bytes
        FROM (SELECT count(*)::integer AS count, coalesce(sum(rows.size_bytes), 0) AS bytes
          FROM fresh AS rows) AS totals
        WHERE totals.count > 0
        RETURNING totals.count INTO added;
      IF added > 0 THEN
        PERFORM pg_notify('stoa_feed', (SELECT extent.epoch || '-' || extent.last_seq FROM feed.extent));
      END IF;
    END IF;
    RETURN QUERY SELECT feed.current_epoch(), extent.last_seq, coalesce(added, 0) FROM feed.extent;
  END $$;

  -- Deletes the oldest commits: those before oldest_ms, and those beyond bytes_max.
  CREATE FUNCTION feed.trim_commits(oldest_ms bigint, bytes_max bigint, rows_max integer) RETURNS integer
  LANGUAGE plpgsql AS $$
  DECLARE
    removed integer;
  BEGIN
    PERFORM pg_advisory_xact_lock(${lockNumber('feed')});
    WITH oldest AS (
      SELECT seq, at_ms, sum(size_bytes) OVER (ORDER BY seq) AS through_bytes
        FROM feed.commits ORDER BY seq LIMIT rows_max
    ), gone AS (
      DELETE FROM feed.commits WHERE seq <= (
        SELECT max(seq) FROM oldest, feed.extent
          WHERE at_ms < oldest_ms OR through_bytes <= extent.size_bytes - bytes_max)
      RETURNING seq, size_bytes
    )
    UPDATE feed.extent SET first_seq = totals.last + 1, size_bytes = extent.size_bytes - totals.bytes
      FROM (SELECT max(seq) AS last, sum(size_bytes) AS bytes, count(*)::integer AS count FROM gone) AS totals
      WHERE totals.count > 0
      RETURNING totals.count INTO removed;
    RETURN coalesce(removed, 0);
  END $$`;

export const feedChannel = 'stoa_feed';

export const feedTables: DomainTables = {
  domain: 'feed',
  about: 'the schema feed, for the change feed',
  migrations: [tables],
};
