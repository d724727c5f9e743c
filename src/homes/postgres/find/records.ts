/** Reads the records at marked places as entries of the index. */
import type { DocumentRecord } from '../../../datastore/model.js';
import { Slices } from '../../../core/waiting/yielding.js';
import { documentEntry, messageEntry, taskEntry } from '../../../find/entries.js';
import type { EntryName } from '../../../find/model.js';
import type { WaitingEntry } from '../../../find/segments/segment.js';
import { indexedTextBytesMax } from '../../../find/text/limited-text.js';
import type { Task } from '../../../workspaces/model.js';
import type { MessageReader } from './messages.js';
import { readStoreEntries } from './store-entries.js';
import { type Queryable, query } from '../database/connection.js';
import { type DocumentRow, columnsRead, recordOf } from '../datastore/sql.js';
import { type Row, recordOf as rowRecord, selected, taskTable } from '../workspaces/rows.js';

/** Documents of this size together are read in one statement. A larger document is read alone. */
const batchBytesMax = 4 * 1024 * 1024;
const batchRowsMax = 256;

/** The entries of the records that exist. A place without a record has none. */
export async function readEntries(
  sql: Queryable,
  owner: string,
  names: readonly EntryName[],
  messages: MessageReader,
): Promise<WaitingEntry[]> {
  const of = (kind: EntryName['kind']): EntryName[] => names.filter((name) => name.kind === kind);
  const slices = new Slices();
  const entries: WaitingEntry[] = [];
  const indexed = await indexedOf(sql, owner, of('data'));
  for await (const record of documents(sql, owner, indexed)) {
    const entry = documentEntry(record);
    if (entry !== null) entries.push(entry);
    await slices.pause();
  }
  entries.push(...(await readStoreEntries(sql, owner, indexed)));
  for (const { task, project } of await tasks(sql, owner, of('tasks'))) {
    entries.push(taskEntry(project, task));
    await slices.pause();
  }
  const wanted = of('messages');
  if (wanted.length === 0) return entries;
  for (const { message, expiresAtMs } of await messages.read(wanted)) {
    entries.push(messageEntry(message, expiresAtMs));
    await slices.pause();
  }
  return entries;
}

/** Without the names in namespaces that are not indexed. */
async function indexedOf(
  sql: Queryable,
  owner: string,
  names: readonly EntryName[],
): Promise<readonly EntryName[]> {
  if (names.length === 0) return names;
  const rows = await query<{ collection: string }>(
    sql,
    `SELECT collection FROM find.namespace_settings
      WHERE owner = $1 AND NOT indexed AND collection = ANY($2::text[])`,
    [owner, [...new Set(names.map(({ collection }) => collection))]],
  );
  const unindexed = new Set(rows.map(({ collection }) => collection));
  return names.filter(({ collection }) => !unindexed.has(collection));
}

/** The documents that exist, in any order. */
export async function* documents(
  sql: Queryable,
  owner: string,
  names: readonly EntryName[],
): AsyncGenerator<DocumentRecord> {
  for (let at = 0; at < names.length; at += batchRowsMax) {
    const part = names.slice(at, at + batchRowsMax);
    const sizes = await query<{ namespace: string; key: string; size: number }>(
      sql,
      `SELECT d.namespace, d.key, d."sizeBytes" AS size FROM ${wantedDocuments}`,
      wantedParameters(owner, part),
    );
    for (const batch of batches(sizes)) {
      const rows = await query<DocumentRow>(
        sql,
        `SELECT ${columnsRead} FROM ${wantedDocuments}`,
        wantedParameters(
          owner,
          batch.map(({ namespace, key }) => ({ collection: namespace, id: key })),
        ),
      );
      for (const row of rows) yield recordOf(row);
    }
  }
}

/** LATERAL: one index lookup for each name, whatever the statistics say. */
const wantedDocuments = `unnest($2::text[], $3::text[]) AS wanted (n, k), LATERAL (SELECT * FROM agent_data_store
  WHERE "userId" = $1 AND namespace = wanted.n AND key = wanted.k LIMIT 1) AS d`;

function wantedParameters(
  owner: string,
  names: readonly Pick<EntryName, 'collection' | 'id'>[],
): [string, string[], string[]] {
  return [owner, names.map(({ collection }) => collection), names.map(({ id }) => id)];
}

function* batches<Item extends { size: number }>(items: readonly Item[]): Generator<Item[]> {
  let batch: Item[] = [];
  let bytes = 0;
  for (const item of items) {
    if (batch.length > 0 && bytes + item.size > batchBytesMax) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(item);
    bytes += item.size;
  }
  if (batch.length > 0) yield batch;
}

/** A text is cut to more bytes than are indexed, so that the index sees it as it sees the whole text. */
const cutText = (column: string): string => `left(${column}, ${indexedTextBytesMax + 1})`;
const cutTaskTable: typeof taskTable = {
  ...taskTable,
  computed: { output: (alias) => cutText(`${alias}.output`), error: (alias) => cutText(`${alias}.error`) },
};

async function tasks(
  sql: Queryable,
  owner: string,
  names: readonly EntryName[],
): Promise<{ project: string; task: Task }[]> {
  if (names.length === 0) return [];
  const rows = await query<Row>(
    sql,
    `SELECT t.project_id, ${selected('t', cutTaskTable)} FROM workspaces.tasks t
      WHERE t.owner_id = $1 AND t.id = ANY($2::text[])`,
    [owner, names.map(({ id }) => id)],
  );
  return rows.map((row) => ({ project: String(row['project_id']), task: rowRecord('t', cutTaskTable, row) }));
}
