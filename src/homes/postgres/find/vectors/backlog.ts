/** Reads waiting documents, and stores their vectors. */
import type { EmbeddedDocument, StoredVector, WaitingDocument } from '../../../../find/vectors/port.js';
import type { DocumentRecord } from '../../../../datastore/model.js';
import { settingsDefault } from '../../../../datastore/namespaces/namespace-settings.js';
import { msOf } from '../../../../datastore/documents/times.js';
import { lockKeySql } from '../../database/advisory-locks.js';
import { type PostgresSql, type Queryable, query } from '../../database/connection.js';
import { type SettingsRow, settingsColumns, settingsOf } from '../../datastore/settings.js';
import type { Work } from '../../write/work.js';
import { distinct } from '../marks.js';
import { documents } from '../records.js';

/** What was read of a document: its notes, and which text it had. */
interface Ticket {
  readonly notes: readonly string[];
  readonly state: string | null;
}

interface Place {
  readonly collection: string;
  readonly id: string;
}

interface WaitingRow extends Place {
  readonly waiting: string;
}

interface KnownRow extends Place {
  readonly space: string;
  readonly text_hash: string;
}

export async function readWaiting(
  sql: PostgresSql,
  owner: string,
  { after, limit, nowMs }: { after: string | null; limit: number; nowMs: number },
): Promise<{ documents: WaitingDocument[]; next: string | null }> {
  const rows = await query<WaitingRow>(
    sql,
    `SELECT waiting, collection, id FROM find.waiting WHERE owner = $1 AND waiting > $2::bigint AND id <> ''
      ORDER BY waiting LIMIT $3`,
    [owner, after ?? '0', limit],
  );
  const places = distinct(rows.map(({ collection, id }) => ({ kind: 'data', collection, id })));
  // Read after the notes: a write that is not seen here has a note that is not removed here.
  const records = new Map<string, DocumentRecord>();
  for await (const record of documents(sql, owner, places))
    records.set(nameOf({ collection: record.namespace, id: record.key }), record);
  const known = byName(
    await query<KnownRow>(
      sql,
      `SELECT v.collection, v.id, v.space, v.text_hash FROM ${givenPlaces}
        JOIN find.vectors v ON v.owner = $1 AND v.collection = given.c AND v.id = given.i`,
      [owner, ...columnsOf(places)],
    ),
  );
  const settings = await settingsOfAll(sql, owner, places);
  const last = rows.length < limit ? undefined : rows.at(-1);
  return {
    documents: places.map((place) => {
      const name = nameOf(place);
      const record = records.get(name) ?? null;
      const stored = known.get(name);
      const { embed, embed_fields: fields } = settings(place.collection);
      return {
        namespace: place.collection,
        key: place.id,
        record: embed && isFound(record, nowMs) ? record : null,
        fields,
        known: stored === undefined ? null : { space: stored.space, textHash: stored.text_hash },
        ticket: {
          notes: rows.filter((row) => nameOf(row) === name).map(({ waiting }) => waiting),
          state: record === null ? null : stateOf(record),
        } satisfies Ticket,
      };
    }),
    next: last?.waiting ?? null,
  };
}

/**
 * One server at a time stores vectors of an owner, and only of texts that are still the newest. Vectors of a
 * model that another server has replaced are dropped, and their documents keep waiting.
 */
export async function settleDocuments(
  work: Work,
  owner: string,
  embedded: readonly EmbeddedDocument[],
): Promise<void> {
  await work.rows(lockKeySql('findVectors'), [owner]);
  // Held until the commit: a server with another model adopts its space before this one, or after it.
  const [newest] = await work.rows<{ space: string }>('SELECT space FROM find.vector_space FOR SHARE');
  const current = embedded.filter(({ stored }) => stored === null || stored.space === newest?.space);
  const places = current.map(({ waiting: { namespace, key } }) => ({ collection: namespace, id: key }));
  const states = byName(
    await work.rows<Place & { version: string; updated: string }>(
      `SELECT d.namespace AS collection, d.key AS id, d.version, d."updatedAt" AS updated FROM ${givenPlaces}
        JOIN agent_data_store d ON d."userId" = $1 AND d.namespace = given.c AND d.key = given.i`,
      [owner, ...columnsOf(places)],
    ),
  );
  const settings = await settingsOfAll(work.sql, owner, places);
  const notes: string[] = [];
  for (const [index, { waiting, stored }] of current.entries()) {
    const place = places[index] as Place;
    const { notes: read, state } = waiting.ticket as Ticket;
    notes.push(...read);
    const now = states.get(nameOf(place));
    // Written meanwhile: that write has left its own note.
    if ((now === undefined ? null : `${now.version} ${msOf(now.updated)}`) !== state) continue;
    if (stored === null || !settings(place.collection).embed)
      await work.rows('DELETE FROM find.vectors WHERE owner = $1 AND collection = $2 AND id = $3', [
        owner,
        place.collection,
        place.id,
      ]);
    else await putVector(work, owner, place, stored);
  }
  await work.rows('DELETE FROM find.waiting WHERE owner = $1 AND waiting = ANY($2::bigint[])', [
    owner,
    notes,
  ]);
}

async function putVector(
  work: Work,
  owner: string,
  { collection, id }: Place,
  stored: StoredVector,
): Promise<void> {
  const { facts, space, textHash, vector } = stored;
  const numbers = vector === 'kept' ? 'v.numbers' : 'excluded.numbers';
  await work.rows(
    `INSERT INTO find.vectors AS v
        (owner, collection, id, version, author, time_ms, expires_ms, space, text_hash, numbers)
        VALUES ($1, $2, $3, $4::bigint, $5, $6::bigint, $7::bigint, $8, $9, $10::text::real[])
      ON CONFLICT (owner, collection, id) DO UPDATE SET version = excluded.version, author = excluded.author,
        time_ms = excluded.time_ms, expires_ms = excluded.expires_ms, space = excluded.space,
        text_hash = excluded.text_hash, numbers = ${numbers}`,
    [
      owner,
      collection,
      id,
      facts.version,
      facts.author,
      Math.floor(facts.timeMs),
      facts.expiresAtMs === null ? null : Math.floor(facts.expiresAtMs),
      space,
      textHash,
      vector instanceof Float32Array ? `{${vector.join(',')}}` : null,
    ],
  );
}

const givenPlaces = 'unnest($2::text[], $3::text[]) AS given (c, i)';

function columnsOf(places: readonly Place[]): [string[], string[]] {
  return [places.map(({ collection }) => collection), places.map(({ id }) => id)];
}

function nameOf({ collection, id }: Place): string {
  return `${collection}\0${id}`;
}

function byName<Row extends Place>(rows: readonly Row[]): Map<string, Row> {
  return new Map(rows.map((row) => [nameOf(row), row]));
}

function stateOf({ version, updatedAt }: DocumentRecord): string {
  return `${version} ${msOf(updatedAt)}`;
}

function isFound(record: DocumentRecord | null, nowMs: number): boolean {
  if (record === null || record.indexed === false) return false;
  return record.expiresAt === null || msOf(record.expiresAt) > nowMs;
}

async function settingsOfAll(
  sql: Queryable,
  owner: string,
  places: readonly Place[],
): Promise<(collection: string) => ReturnType<typeof settingsOf>> {
  const rows = await query<SettingsRow>(
    sql,
    `SELECT ${settingsColumns} FROM find.namespace_settings
      WHERE owner = $1 AND collection = ANY($2::text[])`,
    [owner, [...new Set(places.map(({ collection }) => collection))]],
  );
  const settings = new Map(rows.map((row) => [row.collection, settingsOf(row)]));
  return (collection) => settings.get(collection) ?? settingsDefault;
}
