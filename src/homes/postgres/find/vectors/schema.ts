/**
 * The tables of searches by meaning. A statement that changes documents of a namespace with vectors notes
 * their places in the same transaction: triggers do it. One server at a time embeds the waiting documents of
 * an owner.
 */
export const vectorTables = `
  -- Namespaces without a row have the defaults.
  CREATE TABLE find.namespace_settings (
    owner text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    indexed boolean NOT NULL DEFAULT true,
    embed boolean NOT NULL DEFAULT false,
    embed_fields json,
    PRIMARY KEY (owner, collection)
  );

  -- Documents that were written since their vector was made; with an empty id, whole namespaces. Each write adds a
  -- row of its own, so that writers never wait for each other or for the server that embeds.
  CREATE TABLE find.waiting (
    owner text COLLATE "C" NOT NULL,
    waiting bigint GENERATED ALWAYS AS IDENTITY,
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    since timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of a namespace: the transactions before this one may have written documents under the settings before.
    barrier xid8,
    PRIMARY KEY (owner, waiting)
  );
  -- Which server embeds the documents of an owner, until when.
  CREATE TABLE find.embedding (
    owner text COLLATE "C" PRIMARY KEY,
    server text NOT NULL,
    until timestamptz NOT NULL
  );
  -- One row: the model and the dimensions of the newest vectors. Vectors of another space are not compared.
  CREATE TABLE find.vector_space (
    single boolean PRIMARY KEY DEFAULT true CHECK (single),
    space text NOT NULL
  );
  -- Without numbers the embedder refused the text, or there was none. pgvector can compare real[].
  CREATE TABLE find.vectors (
    owner text COLLATE "C" NOT NULL,
    collection text COLLATE "C" NOT NULL,
    id text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    author text,
    time_ms bigint NOT NULL,
    expires_ms bigint,
    space text NOT NULL,
    text_hash text NOT NULL,
    numbers real[],
    PRIMARY KEY (owner, collection, id)
  );
  ALTER TABLE find.vectors ALTER numbers SET STORAGE EXTERNAL;

  CREATE FUNCTION find.wait_documents() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      INSERT INTO find.waiting (owner, collection, id) SELECT a."userId", a.namespace, a.key FROM added a
        JOIN find.namespace_settings s ON s.owner = a."userId" AND s.collection = a.namespace AND s.embed
        WHERE a.version > 0;
    ELSIF TG_OP = 'UPDATE' THEN
      INSERT INTO find.waiting (owner, collection, id) SELECT a."userId", a.namespace, a.key FROM added a
        JOIN find.namespace_settings s ON s.owner = a."userId" AND s.collection = a.namespace AND s.embed
        JOIN removed r ON r."userId" = a."userId" AND r.namespace = a.namespace AND r.key = a.key
        WHERE (r.version, r."updatedAt", r."expiresAt") IS DISTINCT FROM (a.version, a."updatedAt", a."expiresAt");
    ELSIF TG_OP = 'DELETE' THEN
      INSERT INTO find.waiting (owner, collection, id) SELECT r."userId", r.namespace, r.key FROM removed r
        JOIN find.namespace_settings s ON s.owner = r."userId" AND s.collection = r.namespace AND s.embed
        WHERE r.version > 0;
    ELSE
      DELETE FROM find.waiting;
      DELETE FROM find.vectors;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER wait_documents_insert AFTER INSERT ON agent_data_store REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION find.wait_documents();
  CREATE TRIGGER wait_documents_update AFTER UPDATE ON agent_data_store
    REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION find.wait_documents();
  CREATE TRIGGER wait_documents_delete AFTER DELETE ON agent_data_store REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION find.wait_documents();
  CREATE TRIGGER wait_documents_truncate AFTER TRUNCATE ON agent_data_store
    FOR EACH STATEMENT EXECUTE FUNCTION find.wait_documents()`;
