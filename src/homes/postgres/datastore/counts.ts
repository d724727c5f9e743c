/**
 * Document counts per namespace in PostgreSQL. Triggers append one row per namespace for every statement that
 * changes documents. So writers never wait for the same counter row, and rows that other programs write are
 * counted too. The count of a namespace is the sum of its rows; from time to time the rows are merged into
 * one. A row of version 0 is not a document (`missing.ts`).
 */
import type { NamespaceSummary, Scope } from '../../../datastore/model.js';
import type { Usage } from '../../../datastore/quota.js';
import { normaliseTime } from '../../../datastore/documents/times.js';
import { tryLockSql } from '../database/advisory-locks.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { transaction } from '../database/transaction.js';

export const countsTables = `
  CREATE TABLE agent_data_store_counts (
    "userId" text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    documents bigint NOT NULL,
    "sizeBytes" bigint NOT NULL,
    "updatedAt" timestamptz,
    -- Rows of one namespace differ only in it.
    appended bigint GENERATED ALWAYS AS IDENTITY,
    PRIMARY KEY ("userId", namespace, appended)
  );
  CREATE FUNCTION agent_data_store_count() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      INSERT INTO agent_data_store_counts
        SELECT "userId", namespace, count(*), sum("sizeBytes"), max("updatedAt")
          FROM added WHERE version > 0 GROUP BY "userId", namespace;
    ELSIF TG_OP = 'UPDATE' THEN
      -- Updates of read counts change nothing that is counted here, and append no row.
      INSERT INTO agent_data_store_counts
        SELECT "userId", namespace, sum(documents), sum("sizeBytes"), max(after)
          FROM (SELECT "userId", namespace, 1 AS documents, "sizeBytes", "updatedAt" AS after,
              NULL::timestamptz AS before FROM added
            UNION ALL SELECT "userId", namespace, -1, -"sizeBytes", NULL, "updatedAt" FROM removed) AS moved
          GROUP BY "userId", namespace
          HAVING sum(documents) <> 0 OR sum("sizeBytes") <> 0 OR max(after) IS DISTINCT FROM max(before);
    ELSIF TG_OP = 'DELETE' THEN
      INSERT INTO agent_data_store_counts
        SELECT "userId", namespace, -count(*), -sum("sizeBytes"), NULL
          FROM removed WHERE version > 0 GROUP BY "userId", namespace;
    ELSE
      DELETE FROM agent_data_store_counts;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER agent_data_store_count_insert AFTER INSERT ON agent_data_store
    REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count();
  CREATE TRIGGER agent_data_store_count_update AFTER UPDATE ON agent_data_store
    REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count();
  CREATE TRIGGER agent_data_store_count_delete AFTER DELETE ON agent_data_store
    REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count();
  CREATE TRIGGER agent_data_store_count_truncate AFTER TRUNCATE ON agent_data_store
    FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count()`;

/**
 * Merges the rows of each namespace into one, for one user or for all users. An advisory lock lets one
 * process at a time do this. The merge reads after it has the lock, so it sees every committed row of a
 * namespace: a sum of 0 means that the namespace is empty.
 */
export async function mergeCounts(sql: PostgresSql, user: string | null): Promise<void> {
  await transaction(sql, async (tx) => {
    const [lock] = await query<{ taken: boolean }>(tx, tryLockSql('documentCounts'));
    if (lock?.taken !== true) return;
    await query(
      tx,
      `WITH many AS MATERIALIZED (
          SELECT "userId", namespace FROM agent_data_store_counts WHERE $1::text IS NULL OR "userId" = $1
            GROUP BY "userId", namespace HAVING count(*) > 1 OR sum(documents) = 0),
        gone AS (
          DELETE FROM agent_data_store_counts c USING many
            WHERE c."userId" = many."userId" AND c.namespace = many.namespace RETURNING c.*)
        INSERT INTO agent_data_store_counts
          SELECT "userId", namespace, sum(documents), sum("sizeBytes"), max("updatedAt")
            FROM gone GROUP BY "userId", namespace HAVING sum(documents) <> 0`,
      [user],
    );
  });
}

export interface CountedNamespace extends Omit<NamespaceSummary, 'agents'> {
  /** The number of count rows that were added up. */
  rows: number;
}

const isWanted = `"userId" = $1 AND namespace > $2 AND ($5::text[] IS NULL OR namespace = ANY($5::text[]))`;

/**
 * Namespaces that have live documents. Documents that have expired but are not swept yet are subtracted;
 * there are few of them.
 */
export async function countedNamespaces(
  sql: PostgresSql,
  user: string,
  { after = '', names = null, limit }: { after?: string; names?: readonly string[] | null; limit: number },
  now: string,
): Promise<CountedNamespace[]> {
  const found = await query<{
    namespace: string;
    count: string;
    sizeBytes: string;
    updatedAt: string;
    rows: string;
  }>(
    sql,
    `WITH expired AS MATERIALIZED (
        SELECT "userId", namespace, "sizeBytes" FROM agent_data_store WHERE "expiresAt" <= $3)
      SELECT namespace, sum(documents) AS count, sum("sizeBytes") AS "sizeBytes",
          max("updatedAt") AS "updatedAt", count(*) AS rows
        FROM (
          SELECT namespace, documents, "sizeBytes", "updatedAt" FROM agent_data_store_counts WHERE ${isWanted}
          UNION ALL SELECT namespace, -1, -"sizeBytes", NULL FROM expired WHERE ${isWanted}) AS counted
        GROUP BY namespace HAVING sum(documents) > 0 ORDER BY namespace LIMIT $4`,
    [user, after, now, limit, names],
  );
  return found.map(({ namespace, count, sizeBytes, updatedAt, rows }) => ({
    namespace,
    count: Number(count),
    sizeBytes: Number(sizeBytes),
    updatedAt: normaliseTime(updatedAt),
    rows: Number(rows),
  }));
}

/**
 * The usage of a user, including expired documents. Added up in the database: a user can have many
 * namespaces.
 */
export async function documentsOf(sql: Queryable, user: string): Promise<Usage> {
  const [sums] = await query<{ documents: string; sizeBytes: string; namespaces: string }>(
    sql,
    `SELECT coalesce(sum(documents), 0) AS documents, coalesce(sum("sizeBytes"), 0) AS "sizeBytes",
        count(*) AS namespaces
      FROM (SELECT sum(documents) AS documents, sum("sizeBytes") AS "sizeBytes" FROM agent_data_store_counts
        WHERE "userId" = $1 GROUP BY namespace HAVING sum(documents) > 0) AS counted`,
    [user],
  );
  return {
    documents: Number(sums?.documents ?? 0),
    sizeBytes: Number(sums?.sizeBytes ?? 0),
    namespaces: Number(sums?.namespaces ?? 0),
  };
}

/** The number of documents in a namespace, including expired ones. */
export async function documentsIn(sql: Queryable, { user, namespace }: Scope): Promise<number> {
  const [sum] = await query<{ documents: string }>(
    sql,
    `SELECT coalesce(sum(documents), 0) AS documents FROM agent_data_store_counts
      WHERE "userId" = $1 AND namespace = $2`,
    [user, namespace],
  );
  return Number(sum?.documents ?? 0);
}
