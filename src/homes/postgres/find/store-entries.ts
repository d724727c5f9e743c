/**
 * The words of documents that are in a store beside PostgreSQL. The store has no index of them, so a table keeps what
 * the index needs: its rows are to the search what documents are otherwise.
 */
import type { CurrentDocument } from '../../../datastore/document-store/current-documents.js';
import type { WriteNote } from '../../../datastore/document-store/notes-port.js';
import { msOf } from '../../../datastore/documents/times.js';
import type { Scope } from '../../../datastore/model.js';
import { documentEntry } from '../../../find/entries.js';
import type { EntryName } from '../../../find/model.js';
import type { WaitingEntry } from '../../../find/segments/segment.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import type { Work } from '../write/work.js';
import { passStoreWrites } from './store-writes.js';

const keysPerPage = 64;
/** Expired rows that one round removes. The next round removes the others. */
const expiredPerRound = 10_000;

const isUnindexed = `EXISTS (SELECT FROM find.namespace_settings s
  WHERE s.owner = given.owner AND s.collection = given.namespace AND NOT s.indexed)`;

/**
 * Writes the words of documents as they were just read, for the write of the note. Triggers mark the rows that changed.
 * Throws `OutdatedRead` if they must be read again.
 */
export async function putStoreEntries(
  work: Work,
  documents: readonly CurrentDocument[],
  note: WriteNote | null,
): Promise<void> {
  if (documents.length === 0) return;
  await passStoreWrites(work, documents, note);
  const rows = documents.map(({ user, namespace, key, record }) => ({
    user,
    namespace,
    key,
    createdAtMs: record === undefined ? 0 : msOf(record.createdAt),
    entry: record === undefined ? null : documentEntry(record),
  }));
  await work.rows(
    `DELETE FROM find.entries e USING unnest($1::text[], $2::text[], $3::text[], $4::boolean[])
        AS given (owner, namespace, key, found)
      WHERE e.owner = given.owner AND e.namespace = given.namespace AND e.key = given.key
        AND (NOT given.found OR ${isUnindexed})`,
    [
      rows.map(({ user }) => user),
      rows.map(({ namespace }) => namespace),
      rows.map(({ key }) => key),
      rows.map(({ entry }) => String(entry !== null)),
    ],
  );
  const found = rows.flatMap(({ entry, ...row }) => (entry === null ? [] : [{ ...row, entry }]));
  if (found.length === 0) return;
  // In one order for all servers, so that two never wait for each other. A document that was deleted and written
  // again begins with version 1.
  await work.rows(
    `INSERT INTO find.entries AS e (owner, namespace, key, version, author, created_ms, time_ms, expires_ms, packed)
      SELECT owner, namespace, key, version, author, created_ms, time_ms, expires_ms, decode(packed, 'hex')
        FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], $7::bigint[],
          $8::bigint[], $9::text[]) AS given (owner, namespace, key, version, author, created_ms, time_ms, expires_ms, packed)
        WHERE NOT ${isUnindexed}
        ORDER BY owner COLLATE "C", namespace COLLATE "C", key COLLATE "C"
      ON CONFLICT (owner, namespace, key) DO UPDATE SET version = excluded.version, author = excluded.author,
        created_ms = excluded.created_ms, time_ms = excluded.time_ms, expires_ms = excluded.expires_ms,
        packed = excluded.packed
      WHERE (e.created_ms, e.version) <= (excluded.created_ms, excluded.version)`,
    [
      found.map(({ user }) => user),
      found.map(({ namespace }) => namespace),
      found.map(({ key }) => key),
      found.map(({ entry }) => String(entry.version)),
      found.map(({ entry }) => entry.author),
      found.map(({ createdAtMs }) => String(createdAtMs)),
      found.map(({ entry }) => String(entry.timeMs)),
      found.map(({ entry }) => (entry.expiresAtMs === null ? null : String(entry.expiresAtMs))),
      found.map(({ entry }) => entry.packed.toString('hex')),
    ],
  );
}

interface EntryRow {
  readonly namespace: string;
  readonly key: string;
  readonly version: string;
  readonly author: string | null;
  readonly time_ms: string;
  readonly expires_ms: string | null;
  readonly packed: Buffer;
}

/** The entries of the names that have one. */
export async function readStoreEntries(
  sql: Queryable,
  owner: string,
  names: readonly EntryName[],
): Promise<WaitingEntry[]> {
  if (names.length === 0) return [];
  const rows = await query<EntryRow>(
    sql,
    `SELECT e.namespace, e.key, e.version, e.author, e.time_ms, e.expires_ms, e.packed
      FROM unnest($2::text[], $3::text[]) AS wanted (n, k), LATERAL (SELECT * FROM find.entries
        WHERE owner = $1 AND namespace = wanted.n AND key = wanted.k LIMIT 1) AS e`,
    [owner, names.map(({ collection }) => collection), names.map(({ id }) => id)],
  );
  return rows.map(({ namespace, key, version, author, time_ms, expires_ms, packed }) => ({
    name: { kind: 'data', collection: namespace, id: key },
    version: Number(version),
    author,
    timeMs: Number(time_ms),
    expiresAtMs: expires_ms === null ? null : Number(expires_ms),
    packed,
  }));
}

/** The next keys of a namespace after `after`, up to `through`. */
export async function storeEntryKeys(
  sql: PostgresSql,
  { user, namespace }: Scope,
  after: string | null,
  through: string | null,
): Promise<string[]> {
  const rows = await query<{ key: string }>(
    sql,
    `SELECT key FROM find.entries WHERE owner = $1 AND namespace = $2 AND key > $3
        AND ($4::text IS NULL OR key <= $4::text COLLATE "C") ORDER BY key LIMIT $5`,
    [user, namespace, after ?? '', through, keysPerPage],
  );
  return rows.map(({ key }) => key);
}

/** Expired words leave in time; the store removes the documents themselves. */
export async function removeExpired(sql: PostgresSql, nowMs: number): Promise<void> {
  await query(
    sql,
    `DELETE FROM find.entries WHERE (owner, namespace, key) IN (SELECT owner, namespace, key FROM find.entries
      WHERE expires_ms <= $1 LIMIT $2)`,
    [nowMs, expiredPerRound],
  );
}
