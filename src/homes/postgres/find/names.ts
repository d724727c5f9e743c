/** The names of the things of an owner that the search index may have, read page by page. */
import type { EntryName } from '../../../find/model.js';
import type { ReindexScope } from '../../../find/port.js';
import { type PostgresSql, query } from '../database/connection.js';

/** Names that are read in one statement. */
const namesPerPage = 512;

/** The last name of a page; null before the first. */
export type NamesPosition = { readonly collection: string; readonly id: string } | null;

type NamesOfKind = (
  sql: PostgresSql,
  owner: string,
  namespace: string | null,
  after: NamesPosition,
) => Promise<EntryName[]>;

const documentsIn =
  (table: string, ownerColumn: string): NamesOfKind =>
  async (sql, owner, namespace, after) => {
    const rows = await query<{ collection: string; id: string }>(
      sql,
      `SELECT namespace AS collection, key AS id FROM ${table}
        WHERE ${ownerColumn} = $1 AND (namespace, key) > ($2, $3) AND ($4::text IS NULL OR namespace = $4)
        ORDER BY namespace, key LIMIT $5`,
      [owner, after?.collection ?? namespace ?? '', after?.id ?? '', namespace, namesPerPage],
    );
    return rows.map(({ collection, id }) => ({ kind: 'data', collection, id }));
  };

const tasks: NamesOfKind = async (sql, owner, namespace, after) => {
  if (namespace !== null) return [];
  const rows = await query<{ collection: string; id: string }>(
    sql,
    `SELECT project_id AS collection, id FROM workspaces.tasks WHERE owner_id = $1 AND id > $2
      ORDER BY id LIMIT $3`,
    [owner, after?.id ?? '', namesPerPage],
  );
  return rows.map(({ collection, id }) => ({ kind: 'tasks', collection, id }));
};

const namesOfKind = {
  data: documentsIn('agent_data_store', '"userId"'),
  /** Documents in a store beside PostgreSQL. */
  entries: documentsIn('find.entries', 'owner'),
  tasks,
} as const;
export type OwnedKind = keyof typeof namesOfKind;
export const ownedKinds: readonly OwnedKind[] = ['data', 'entries', 'tasks'];

/** The next names of one kind; fewer than a page at the end. */
export async function readNames(
  sql: PostgresSql,
  owner: string,
  kind: OwnedKind,
  namespace: string | null,
  after: NamesPosition,
): Promise<{ names: EntryName[]; after: NamesPosition }> {
  const names = await namesOfKind[kind](sql, owner, namespace, after);
  const last = names.at(-1);
  return { names, after: last === undefined || names.length < namesPerPage ? null : last };
}

/** The next user with documents, tasks or entries, in the order of names; undefined at the end. */
export async function nextOwner(sql: PostgresSql, after: string): Promise<string | undefined> {
  const [row] = await query<{ owner: string | null }>(
    sql,
    `SELECT least((SELECT min(owner) FROM find.segments WHERE owner > $1), (SELECT min(owner) FROM find.marks WHERE owner > $1),
      (SELECT min(owner) FROM find.entries WHERE owner > $1),
      (SELECT min("userId") FROM agent_data_store WHERE "userId" > $1),
      (SELECT min(owner_id COLLATE "C") FROM workspaces.tasks WHERE owner_id COLLATE "C" > $1)) AS owner`,
    [after],
  );
  return row?.owner ?? undefined;
}

/** Documents and tasks in the scope, and messages as rooms count them: an estimate, because some have expired. */
export async function countNames(sql: PostgresSql, { user, namespace }: ReindexScope): Promise<number> {
  const [row] = await query<{ total: string }>(
    sql,
    `SELECT (SELECT count(*) FROM agent_data_store
        WHERE ($1::text IS NULL OR "userId" = $1) AND ($2::text IS NULL OR namespace = $2))
      + (SELECT count(*) FROM find.entries
        WHERE ($1::text IS NULL OR owner = $1) AND ($2::text IS NULL OR namespace = $2))
      + CASE WHEN $2::text IS NULL THEN (SELECT count(*) FROM workspaces.tasks WHERE $1::text IS NULL OR owner_id = $1)
        ELSE 0 END
      + CASE WHEN $1::text IS NULL THEN (SELECT coalesce(sum(message_count), 0) FROM rooms) ELSE 0 END AS total`,
    [user, namespace],
  );
  return Number(row?.total ?? 0);
}
