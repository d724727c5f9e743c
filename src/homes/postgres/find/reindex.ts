/**
 * Files everything again, in steps, while servers work. Places that are filed are marked, so that an entry without a
 * record goes; then the places of all records, so that a record without an entry gets one.
 */
import type { EntryName } from '../../../find/model.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { type PostgresSql, query } from '../database/connection.js';
import type { Filing } from './filing.js';
import { messagesOwner } from './schema.js';

/** Places that are marked in one statement. */
const placesPerStep = 512;

export interface ReindexSource {
  readonly sql: PostgresSql;
  readonly filing: Filing;
  /** The places of all messages. */
  messages(): AsyncIterable<EntryName>;
}

export interface ReindexProgress {
  readonly owners: number;
  readonly ownersDone: number;
  /** Places that were filed again so far. */
  readonly filed: number;
}

export async function* reindexAll(source: ReindexSource): AsyncGenerator<ReindexProgress> {
  const rows = await query<{ owner: string }>(
    source.sql,
    `SELECT owner FROM find.segments UNION SELECT owner FROM find.marks UNION SELECT "userId" FROM agent_data_store
      UNION SELECT owner_id FROM workspaces.tasks UNION SELECT '' ORDER BY owner`,
  );
  let filed = 0;
  for (const [ownersDone, { owner }] of rows.entries()) {
    for await (const names of steps(placesOf(source, owner))) {
      await mark(source.sql, owner, names);
      await fileMarks(source.filing, owner);
      filed += names.length;
      yield { owners: rows.length, ownersDone, filed };
    }
    while (await source.filing.merge(owner));
    yield { owners: rows.length, ownersDone: ownersDone + 1, filed };
  }
}

/** Another server may be filing the same owner: then its marks are filed there. */
async function fileMarks(filing: Filing, owner: string): Promise<void> {
  for (;;) {
    const done = await filing.file(owner);
    if (done === null || done === 0) return;
  }
}

async function mark(sql: PostgresSql, owner: string, names: readonly EntryName[]): Promise<void> {
  await query(
    sql,
    `INSERT INTO find.marks (owner, kind, collection, id)
      SELECT $1, kind, collection, id FROM unnest($2::text[], $3::text[], $4::text[]) AS given (kind, collection, id)`,
    [
      owner,
      names.map(({ kind }) => kind),
      names.map(({ collection }) => collection),
      names.map(({ id }) => id),
    ],
  );
}

async function* placesOf(source: ReindexSource, owner: string): AsyncGenerator<EntryName> {
  const seen = new Set<string>();
  const segments = await query<{ segment: string }>(
    source.sql,
    'SELECT segment FROM find.segments WHERE owner = $1 ORDER BY segment',
    [owner],
  );
  for (const { segment } of segments) {
    const [row] = await query<{ catalog: Buffer }>(
      source.sql,
      'SELECT catalog FROM find.segments WHERE owner = $1 AND segment = $2::bigint',
      [owner, segment],
    );
    // Joined with others in the meantime.
    if (row === undefined) continue;
    const catalog = new Catalog(row.catalog);
    for (let place = 0; place < catalog.count; place += 1) {
      const name = catalog.name(place);
      const text = JSON.stringify(name);
      if (!seen.has(text)) yield name;
      seen.add(text);
    }
  }
  const records = owner === messagesOwner ? source.messages() : recordsOf(source.sql, owner);
  for await (const name of records) if (!seen.has(JSON.stringify(name))) yield name;
}

/** The places of all documents and tasks of an owner. */
export async function* recordsOf(sql: PostgresSql, owner: string): AsyncGenerator<EntryName> {
  let after = { collection: '', id: '' };
  for (;;) {
    const rows = await query<typeof after>(
      sql,
      `SELECT namespace AS collection, key AS id FROM agent_data_store
        WHERE "userId" = $1 AND (namespace, key) > ($2, $3) ORDER BY namespace, key LIMIT $4`,
      [owner, after.collection, after.id, placesPerStep],
    );
    for (const { collection, id } of rows) yield { kind: 'data', collection, id };
    const last = rows.at(-1);
    if (last === undefined || rows.length < placesPerStep) break;
    after = last;
  }
  for (let task = ''; ;) {
    const rows = await query<{ collection: string; id: string }>(
      sql,
      `SELECT project_id AS collection, id FROM workspaces.tasks WHERE owner_id = $1 AND id > $2
        ORDER BY id LIMIT $3`,
      [owner, task, placesPerStep],
    );
    for (const { collection, id } of rows) yield { kind: 'tasks', collection, id };
    const last = rows.at(-1);
    if (last === undefined || rows.length < placesPerStep) return;
    task = last.id;
  }
}

async function* steps(names: AsyncIterable<EntryName>): AsyncGenerator<EntryName[]> {
  let step: EntryName[] = [];
  for await (const name of names) {
    step.push(name);
    if (step.length < placesPerStep) continue;
    yield step;
    step = [];
  }
  if (step.length > 0) yield step;
}
