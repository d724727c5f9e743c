/**
 * What is kept about namespaces in PostgreSQL, so that nobody has to count documents. Every statement
 * that changes documents appends what it changed, by triggers, so that no two writers wait for one row and
 * rows of other programs count too. A namespace is the sum of its rows; now and then they become one.
 */
import type { NamespaceSummary, Scope } from '../../../datastore/model.js';
import type { Usage } from '../../../datastore/quota.js';
import { normaliseTime } from '../../../datastore/documents/times.js';
import { type PostgresSql, type Queryable, query, transaction } from '../connection.js';

export const countsTables = `
  CREATE TABLE agent_data_store_counts (
    "userId" text COLLATE "C" NOT NULL,
    namespace text COLLATE "C" NOT NULL,
    documents bigint NOT NULL,
    "sizeBytes" bigint NOT NULL,
    "updatedAt" timestamptz
  );
  CREATE INDEX agent_data_store_counts_namespace ON agent_data_store_counts ("userId", namespace);
  CREATE FUNCTION agent_data_store_count() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
  BEGIN
    IF TG_OP = 'INSERT' THEN
      INSERT INTO agent_data_store_counts
        SELECT "userId", namespace, count(*), sum("sizeBytes"), max("updatedAt") FROM added GROUP BY "userId", namespace;
    ELSIF TG_OP = 'UPDATE' THEN
      -- Counted reads change none of it, and leave nothing here.
      INSERT INTO agent_data_store_counts
        SELECT "userId", namespace, sum(documents), sum("sizeBytes"), max(after)
          FROM (SELECT "userId", namespace, 1 AS documents, "sizeBytes", "updatedAt" AS after, NULL::timestamptz AS before FROM added
            UNION ALL SELECT "userId", namespace, -1, -"sizeBytes", NULL, "updatedAt" FROM removed) AS moved
          GROUP BY "userId", namespace
          HAVING sum(documents) <> 0 OR sum("sizeBytes") <> 0 OR max(after) IS DISTINCT FROM max(before);
    ELSIF TG_OP = 'DELETE' THEN
      INSERT INTO agent_data_store_counts
        SELECT "userId", namespace, -count(*), -sum("sizeBytes"), NULL FROM removed GROUP BY "userId", namespace;
    ELSE
      DELETE FROM agent_data_store_counts;
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER agent_data_store_count_insert AFTER INSERT ON agent_data_store REFERENCING NEW TABLE AS added
    FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count();
  CREATE TRIGGER agent_data_store_count_update AFTER UPDATE ON agent_data_store REFERENCING NEW TABLE AS added OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count();
  CREATE TRIGGER agent_data_store_count_delete AFTER DELETE ON agent_data_store REFERENCING OLD TABLE AS removed
    FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count();
  CREATE TRIGGER agent_data_store_count_truncate AFTER TRUNCATE ON agent_data_store FOR EACH STATEMENT EXECUTE FUNCTION agent_data_store_count()`;

/**
 * One row for each namespace again, of one user or of all. One process does it at a time, and looks after it has
 * the lock: so it sees every earlier row of a namespace, and no documents in all mean an empty namespace.
 */
export async function foldCounts(sql: PostgresSql, user: string | null): Promise<void> {
  await transaction(sql, async (tx) => {
    const [lock] = await query<{ taken: boolean }>(
      tx,
      "SELECT pg_try_advisory_xact_lock(hashtext('agent_data_store_counts')) AS taken",
    );
    if (lock?.taken !== true) return;
    await query(
      tx,
      `WITH many AS MATERIALIZED (
          SELECT "userId", namespace FROM agent_data_store_counts WHERE $1::text IS NULL OR "userId" = $1
            GROUP BY "userId", namespace HAVING count(*) > 1 OR sum(documents) = 0),
        gone AS (DELETE FROM agent_data_store_counts c USING many WHERE c."userId" = many."userId" AND c.namespace = many.namespace RETURNING c.*)
        INSERT INTO agent_data_store_counts
          SELECT "userId", namespace, sum(documents), sum("sizeBytes"), max("updatedAt") FROM gone GROUP BY "userId", namespace HAVING sum(documents) <> 0`,
      [user],
    );
  });
}

export interface CountedNamespace extends Omit<NamespaceSummary, 'agents'> {
  /** From how many rows it was added up. */
  rows: number;
}

/** Namespaces with live documents. Those that have expired and are not swept yet are few, and are taken off. */
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
    `WITH expired AS MATERIALIZED (SELECT "userId", namespace, "sizeBytes" FROM agent_data_store WHERE "expiresAt" <= $3)
      SELECT namespace, sum(documents) AS count, sum("sizeBytes") AS "sizeBytes", max("updatedAt") AS "updatedAt", count(*) AS rows
        FROM (SELECT namespace, documents, "sizeBytes", "updatedAt" FROM agent_data_store_counts WHERE "userId" = $1 AND namespace > $2 AND ($5::text[] IS NULL OR namespace = ANY($5::text[]))
          UNION ALL SELECT namespace, -1, -"sizeBytes", NULL FROM expired WHERE "userId" = $1 AND namespace > $2 AND ($5::text[] IS NULL OR namespace = ANY($5::text[]))) AS counted
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

/** All that a user has, expired documents among it. Added up in the database: a user may have very many namespaces. */
export async function documentsOf(sql: Queryable, user: string): Promise<Usage> {
  const [sums] = await query<{ documents: string; sizeBytes: string; namespaces: string }>(
    sql,
    `SELECT coalesce(sum(documents), 0) AS documents, coalesce(sum("sizeBytes"), 0) AS "sizeBytes", count(*) AS namespaces
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

/** How many documents a namespace has, expired ones among them. */
export async function documentsIn(sql: Queryable, { user, namespace }: Scope): Promise<number> {
  const [sum] = await query<{ documents: string }>(
    sql,
    'SELECT coalesce(sum(documents), 0) AS documents FROM agent_data_store_counts WHERE "userId" = $1 AND namespace = $2',
    [user, namespace],
  );
  return Number(sum?.documents ?? 0);
}
