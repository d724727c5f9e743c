/** Notes of writes of a store beside PostgreSQL: a row for each document that the write names. */
import type { DocumentName } from '../../../datastore/document-store/current-documents.js';
import {
  type NotedDocument,
  OutdatedRead,
  type WriteNote,
} from '../../../datastore/document-store/notes-port.js';
import { lockSql } from '../database/advisory-locks.js';
import { type PostgresSql, query } from '../database/connection.js';
import type { Work } from '../write/work.js';

/** Rows of notes that one server takes at a time. */
const rowsPerRound = 1_000;

interface NoteRow {
  readonly owner: string;
  readonly namespace: string;
  readonly key: string;
  readonly note: string;
  readonly server: string;
  readonly agent: string | null;
  readonly kind: 'set' | 'delete' | 'clear';
}

export function putNote(work: Work, { id, server, agent, documents, cleared }: WriteNote): void {
  const named = documents.map(({ isDelete, ...name }) => ({ ...name, kind: isDelete ? 'delete' : 'set' }));
  if (cleared !== null) named.push({ ...cleared.scope, key: cleared.after ?? '', kind: 'clear' });
  work.send(
    `INSERT INTO find.store_writes (owner, namespace, key, kind, note, server, agent)
      SELECT owner, namespace, key, kind, $5::uuid, $6::uuid, $7::text
        FROM unnest($1::text[], $2::text[], $3::text[], $4::text[]) AS given (owner, namespace, key, kind)`,
    [...namesOf(named), named.map(({ kind }) => kind), id, server, agent],
  );
}

export function removeNote(work: Work, { id }: WriteNote): void {
  work.send('DELETE FROM find.store_writes WHERE note = $1::uuid', [id]);
}

/**
 * Documents are filed as they were just read. If another server filed one of them since, they must be read again. Writes
 * of other servers that have read one of them before must read it again. Rows are locked in one order for all servers.
 */
export async function passStoreWrites(
  work: Work,
  documents: readonly DocumentName[],
  note: WriteNote | null,
): Promise<void> {
  const rows = await work.rows<{ note: string; server: string; is_outdated: boolean }>(
    `SELECT w.note, w.server, w.is_outdated FROM find.store_writes w,
        unnest($1::text[], $2::text[], $3::text[]) AS given (owner, namespace, key)
      WHERE w.owner = given.owner AND w.namespace = given.namespace AND w.key = given.key AND w.kind <> 'clear'
      ORDER BY w.owner, w.namespace, w.key, w.note FOR UPDATE OF w`,
    namesOf(documents),
  );
  if (rows.some((row) => row.note === note?.id && row.is_outdated)) throw new OutdatedRead();
  const others = rows.filter(({ server }) => server !== note?.server);
  if (others.length > 0)
    work.send(
      `UPDATE find.store_writes w SET is_outdated = true
        FROM unnest($1::text[], $2::text[], $3::text[]) AS given (owner, namespace, key)
        WHERE w.owner = given.owner AND w.namespace = given.namespace AND w.key = given.key AND w.note = ANY ($4::uuid[])`,
      [...namesOf(documents), others.map((row) => row.note)],
    );
}

export async function readAgain(sql: PostgresSql, { id }: WriteNote): Promise<void> {
  await query(sql, 'UPDATE find.store_writes SET is_outdated = false WHERE note = $1::uuid', [id]);
}

export async function renewNotes(sql: PostgresSql, notes: readonly WriteNote[]): Promise<void> {
  await query(sql, 'UPDATE find.store_writes SET seen_at = clock_timestamp() WHERE note = ANY ($1::uuid[])', [
    notes.map(({ id }) => id),
  ]);
}

/** Taking renews them, so that no other server gets them meanwhile. */
export async function takeLeftNotes(work: Work, ageMs: number): Promise<WriteNote[]> {
  await work.rows(lockSql('storeWrites'));
  const rows = await work.rows<NoteRow>(
    `UPDATE find.store_writes SET seen_at = clock_timestamp(), is_outdated = false
      WHERE note IN (SELECT note FROM find.store_writes
        WHERE seen_at <= clock_timestamp() - $1::double precision * interval '1 millisecond' ORDER BY seen_at LIMIT $2)
      RETURNING owner, namespace, key, note, server, agent, kind`,
    [ageMs, rowsPerRound],
  );
  const byNote = new Map<string, NoteRow[]>();
  for (const row of rows) {
    const own = byNote.get(row.note) ?? [];
    own.push(row);
    byNote.set(row.note, own);
  }
  return Array.from(byNote.values(), noteOf);
}

export async function countNotes(sql: PostgresSql): Promise<number> {
  const [row] = await query<{ notes: string }>(sql, 'SELECT count(*) AS notes FROM find.store_writes');
  return Number(row?.notes ?? 0);
}

function noteOf(rows: readonly NoteRow[]): WriteNote {
  const [first] = rows as [NoteRow, ...NoteRow[]]; // A group has a row.
  const clear = rows.find(({ kind }) => kind === 'clear');
  return {
    id: first.note,
    server: first.server,
    agent: first.agent,
    documents: rows.flatMap(({ owner, namespace, key, kind }): NotedDocument[] =>
      kind === 'clear' ? [] : [{ user: owner, namespace, key, isDelete: kind === 'delete' }],
    ),
    cleared:
      clear === undefined
        ? null
        : {
            scope: { user: clear.owner, namespace: clear.namespace },
            after: clear.key === '' ? null : clear.key,
          },
  };
}

/** The parameters of a list of names. */
function namesOf(names: readonly DocumentName[]): [string[], string[], string[]] {
  return [
    names.map(({ user }) => user),
    names.map(({ namespace }) => namespace),
    names.map(({ key }) => key),
  ];
}
