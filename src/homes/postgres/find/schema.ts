/**
 * The tables of the search in PostgreSQL. A statement that changes documents or tasks marks their places, in the
 * same transaction and whichever program sends it: triggers do it. A server later files marked places into
 * segments; until then a search reads the marked records themselves.
 */
import type { DomainTables } from '../database/migrate.js';
import { vectorTables } from './vectors/schema.js';

/** The owner of messages: rooms belong to all users, so their messages have one index. */
export const messagesOwner = '';

/** How the rows of a table are marked. */
interface MarkedTable {
  /** Owner, kind, collection and id. */
  readonly place: string;
  /** Version, author and time in milliseconds. */
  readonly facts: string;
  /** Everything else that the entry in the index depends on. */
  readonly text: string;
}

const milliseconds = (column: string): string => `floor(extract(epoch FROM ${column}) * 1000)::bigint`;
/** A longer value counts as changed with each version. */
const comparedBytesMax = 64 * 1024;

const markedDocuments: MarkedTable = {
  place: `"userId", 'data', namespace, key`,
  facts: `version, "updatedByAgent", ${milliseconds('"updatedAt"')}`,
  // The value is hashed first: the text of a ROW quotes it byte by byte.
  text: `version > 0, indexed, "expiresAt", metadata::text, CASE WHEN "sizeBytes" > ${comparedBytesMax}
    THEN version::text ELSE sha256(convert_to(value::text, 'UTF8'))::text END`,
};
const markedEntries: MarkedTable = {
  place: `owner, 'data', namespace, key`,
  facts: 'version, author, time_ms',
  text: 'created_ms, expires_ms, sha256(packed)',
};
const markedTasks: MarkedTable = {
  place: `owner_id, 'tasks', project_id, id`,
  facts: `version, claimed_by, ${milliseconds('updated_at')}`,
  text: 'command, labels, output, error, question, answer',
};

/** The mark triggers of a table: after each statement, for all rows that it changed. */
function markTriggers(table: string, name: string): string {
  return `
  CREATE TRIGGER ${name}_insert AFTER INSERT ON ${table} REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION find.${name}();
  CREATE TRIGGER ${name}_update AFTER UPDATE ON ${table} REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION find.${name}();
  CREATE TRIGGER ${name}_delete AFTER DELETE ON ${table} REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION find.${name}();`;
}

/**
 * Updates that change none of the facts, such as read counts, mark nothing. One that changes no text leaves the new facts
 * in the mark, so that no words are filed again. A row of version 0 is not a record: it keeps the place of a missing
 * document for a moment (`../datastore/missing.ts`).
 */
function markFunction(name: string, { place, facts, text }: MarkedTable): string {
  const changed = (rows: string): string => `SELECT ${place}, false, ${facts} FROM ${rows}`;
  const rewritten = (rows: string): string =>
    `SELECT ${place}, sha256(convert_to(ROW(${text})::text, 'UTF8')) FROM ${rows}`;
  return `
  CREATE FUNCTION find.${name}() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      INSERT INTO find.marks (owner, kind, collection, id) SELECT ${place} FROM added WHERE version > 0;
    ELSIF TG_OP = 'UPDATE' THEN
      INSERT INTO find.marks (owner, kind, collection, id, version, author, time_ms)
        SELECT owner, kind, collection, id, CASE WHEN NOT bool_or(is_text) THEN max(version) END,
            CASE WHEN NOT bool_or(is_text) THEN max(author) END, CASE WHEN NOT bool_or(is_text) THEN max(time_ms) END
          FROM ((${changed('added')} EXCEPT ${changed('removed')})
            UNION ALL (SELECT owner, kind, collection, id, true, NULL, NULL, NULL
              FROM (${rewritten('added')} EXCEPT ${rewritten('removed')}) AS text (owner, kind, collection, id, sum))
          ) AS changes (owner, kind, collection, id, is_text, version, author, time_ms)
          GROUP BY owner, kind, collection, id;
    ELSE
      INSERT INTO find.marks (owner, kind, collection, id) SELECT ${place} FROM removed WHERE version > 0;
    END IF;
    RETURN NULL;
  END $$;`;
}

const initialTables = `
  CREATE SCHEMA find;

  -- Places whose record was written, deleted or has expired since it was filed. Each write adds a row of its own,
  -- so that writers never wait for each other or for the server that files.
  CREATE TABLE find.marks (
    owner text COLLATE "C" NOT NULL,
    mark bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    -- The new facts, if the words are the same.
    version bigint,
    author text,
    time_ms bigint,
    marked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (owner, mark)
  );

  -- Rows are added and removed whole; only the dead places of a segment change, and the facts of its entries.
  CREATE TABLE find.segments (
    owner text COLLATE "C" NOT NULL,
    segment bigint GENERATED ALWAYS AS IDENTITY,
    entries integer NOT NULL,
    dead_entries integer NOT NULL DEFAULT 0,
    -- Since when the segment has text that must not be found: deleted, or expired.
    dead_since timestamptz,
    catalog bytea NOT NULL,
    -- What may change of the entries without their words.
    facts bytea NOT NULL,
    -- How often the facts were written again.
    revision integer NOT NULL DEFAULT 0,
    dead bytea NOT NULL DEFAULT '',
    PRIMARY KEY (owner, segment)
  );
  CREATE TABLE find.blocks (
    owner text COLLATE "C" NOT NULL,
    segment bigint NOT NULL,
    first bytea NOT NULL,
    place integer NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (owner, segment, first, place)
  ) WITH (toast_tuple_target = 4080); -- Two blocks share a page, and reading one does not read a second table.
  -- Joined segments leave dead rows, whose space is used again after a vacuum.
  ALTER TABLE find.marks SET (autovacuum_vacuum_scale_factor = 0.05);
  ALTER TABLE find.blocks SET (autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);
  ALTER TABLE find.segments SET (autovacuum_vacuum_scale_factor = 0.05);
  -- How far filing everything again has come. Empty owner: of all users. Empty namespace: everything.
  CREATE TABLE find.reindexing (
    owner text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    total bigint NOT NULL,
    done bigint NOT NULL DEFAULT 0,
    removed bigint NOT NULL DEFAULT 0,
    position text NOT NULL,
    worker text NOT NULL,
    seen_at timestamptz NOT NULL,
    PRIMARY KEY (owner, namespace)
  );
  -- The bytes are packed already: compressing them again costs time and saves little.
  ALTER TABLE find.segments ALTER catalog SET STORAGE EXTERNAL, ALTER facts SET STORAGE EXTERNAL,
    ALTER dead SET STORAGE EXTERNAL;
  ALTER TABLE find.blocks ALTER body SET STORAGE EXTERNAL;

  ${markFunction('mark_documents', markedDocuments)}
  ${markTriggers('agent_data_store', 'mark_documents')}

  -- The words of documents that are in a store beside PostgreSQL, as the search needs them.
  CREATE TABLE find.entries (
    owner text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    author text,
    created_ms bigint NOT NULL,
    time_ms bigint NOT NULL,
    expires_ms bigint,
    packed bytea NOT NULL,
    PRIMARY KEY (owner, namespace, key)
  );
  CREATE INDEX entries_expiry ON find.entries (expires_ms) WHERE expires_ms IS NOT NULL;
  ALTER TABLE find.entries ALTER packed SET STORAGE EXTERNAL;
  ${markFunction('mark_entries', markedEntries)}
  ${markTriggers('find.entries', 'mark_entries')}

  -- What writes of that store may change, until their end is recorded. A clear has the key after which it removes.
  CREATE TABLE find.store_writes (
    owner text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    note uuid NOT NULL,
    server uuid NOT NULL,
    agent text,
    kind text NOT NULL CHECK (kind IN ('set', 'delete', 'clear')),
    -- Another server filed the document meanwhile.
    is_outdated boolean NOT NULL DEFAULT false,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (owner, namespace, key, note, kind)
  );
  CREATE INDEX store_writes_notes ON find.store_writes (note);
  CREATE INDEX store_writes_seen ON find.store_writes (seen_at);

  CREATE FUNCTION find.forget_documents() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    DELETE FROM find.marks WHERE owner <> '';
    DELETE FROM find.segments WHERE owner <> '';
    DELETE FROM find.blocks WHERE owner <> '';
    INSERT INTO find.marks (owner, kind, collection, id) SELECT owner_id, 'tasks', project_id, id FROM workspaces.tasks;
    INSERT INTO find.marks (owner, kind, collection, id) SELECT owner, 'data', namespace, key FROM find.entries;
    RETURN NULL;
  END $$;
  CREATE TRIGGER forget_documents AFTER TRUNCATE ON agent_data_store
    FOR EACH STATEMENT EXECUTE FUNCTION find.forget_documents();

  ${vectorTables}`;

/** For the migration of workspaces, whose table gets these triggers. */
export const taskMarks = `${markFunction('mark_tasks', markedTasks)}
  ${markTriggers('workspaces.tasks', 'mark_tasks')}`;

export const findTables: DomainTables = {
  domain: 'find',
  about: 'the schema find, for the search',
  migrations: [initialTables],
};
