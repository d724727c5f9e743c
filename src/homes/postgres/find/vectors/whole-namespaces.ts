/** Lets all documents of a namespace wait for vectors, or removes their vectors, in steps. */
import { type PostgresSql, query } from '../../database/connection.js';

/** Rows of one statement. */
const rowsPerStep = 1_000;

interface Note {
  readonly waiting: string;
  readonly collection: string;
  readonly embed: boolean | null;
}

/**
 * Carries out the notes of an owner's namespaces, which have an empty id. A write that began before the
 * settings changed notes nothing itself. So a note waits until all transactions of its time have ended.
 */
export async function spreadNamespaces(sql: PostgresSql, owner: string): Promise<void> {
  await query(
    sql,
    `UPDATE find.waiting SET barrier = pg_snapshot_xmax(pg_current_snapshot())
      WHERE owner = $1 AND id = '' AND barrier IS NULL`,
    [owner],
  );
  const notes = await query<Note>(
    sql,
    `SELECT w.waiting, w.collection, s.embed FROM find.waiting w
      LEFT JOIN find.namespace_settings s ON s.owner = w.owner AND s.collection = w.collection
      WHERE w.owner = $1 AND w.id = '' AND w.barrier <= pg_snapshot_xmin(pg_current_snapshot()) ORDER BY w.waiting`,
    [owner],
  );
  for (const { waiting, collection, embed } of notes) {
    if (embed === true) await waitForAll(sql, owner, collection);
    else await removeAll(sql, owner, collection);
    await query(sql, 'DELETE FROM find.waiting WHERE owner = $1 AND waiting = $2::bigint', [owner, waiting]);
  }
}

async function waitForAll(sql: PostgresSql, owner: string, collection: string): Promise<void> {
  for (let after = ''; ;) {
    const rows = await query<{ key: string }>(
      sql,
      `WITH page AS (SELECT key FROM agent_data_store WHERE "userId" = $1 AND namespace = $2 AND key > $3
          ORDER BY key LIMIT $4),
        noted AS (INSERT INTO find.waiting (owner, collection, id) SELECT $1, $2, key FROM page)
      SELECT key FROM page ORDER BY key`,
      [owner, collection, after, rowsPerStep],
    );
    const last = rows.at(-1);
    if (last === undefined || rows.length < rowsPerStep) return;
    after = last.key;
  }
}

async function removeAll(sql: PostgresSql, owner: string, collection: string): Promise<void> {
  for (;;) {
    const rows = await query(
      sql,
      `DELETE FROM find.vectors WHERE owner = $1 AND collection = $2 AND id IN
        (SELECT id FROM find.vectors WHERE owner = $1 AND collection = $2 LIMIT $3) RETURNING 1`,
      [owner, collection, rowsPerStep],
    );
    if (rows.length < rowsPerStep) return;
  }
}
