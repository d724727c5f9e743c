/** Compares a vector with those of documents: here, or by pgvector in the database. */
import { checkWanted } from '../../../../core/waiting/cancellation.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import type { VectorAnswer, VectorSearch } from '../../../../find/vectors/port.js';
import { MostSimilar } from '../../../../find/vectors/similarity.js';
import { type Parameter, type PostgresSql, query } from '../../database/connection.js';

/** Vectors that one statement reads: 3 MB of numbers with 1,536 dimensions. */
const vectorsPerRead = 256;
/**
 * In the binary form of an array: dimensions, flags, type, length and lower bound; then each number with its
 * length.
 */
const arrayHeadBytes = 20;
const arrayItemBytes = 8;

interface VectorRow {
  readonly collection: string;
  readonly id: string;
  readonly version: string;
  readonly author: string | null;
  readonly time_ms: string;
  readonly expires_ms: string | null;
  readonly numbers: Buffer;
}

const columns = 'collection, id, version, author, time_ms, expires_ms, array_send(numbers) AS numbers';

/** Null: pgvector can compare vectors here. Else why it cannot, and what to do. */
export async function whyNoPgvector(sql: PostgresSql): Promise<string | null> {
  const [row] = await query<{ available: boolean; created: boolean; visible: boolean }>(
    sql,
    `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'vector') AS available,
      EXISTS (SELECT FROM pg_extension WHERE extname = 'vector') AS created, to_regtype('vector') IS NOT NULL AS visible`,
  );
  if (row?.created === true)
    return row.visible ? null : 'the extension vector (pgvector) is in a schema outside the search_path';
  if (row?.available !== true) return 'this PostgreSQL does not have the extension vector (pgvector)';
  return (
    'this database does not have the extension vector (pgvector). Run "CREATE EXTENSION vector" in it as a user ' +
    'with the right to do so, then restart the servers'
  );
}

export async function compareOneByOne(
  sql: PostgresSql,
  search: VectorSearch,
  examinedMax: number,
): Promise<VectorAnswer> {
  const { where, parameters } = conditions(search);
  const best = new MostSimilar(search);
  const slices = new Slices();
  let after = ['', ''];
  for (;;) {
    const rows = await query<VectorRow>(
      sql,
      `SELECT ${columns} FROM find.vectors WHERE ${where}
          AND (collection, id) > ($${parameters.length + 1}, $${parameters.length + 2})
        ORDER BY collection, id LIMIT $${parameters.length + 3}`,
      [...parameters, ...after, vectorsPerRead],
    );
    for (const row of rows) {
      checkWanted(search.signal);
      if (best.compared === examinedMax) return { entries: best.inOrder(), isComplete: false, isWhole: true };
      add(best, row);
      await slices.pause();
    }
    const last = rows.at(-1);
    if (last === undefined || rows.length < vectorsPerRead)
      return { entries: best.inOrder(), isComplete: best.compared <= search.limit, isWhole: true };
    after = [last.collection, last.id];
  }
}

/**
 * pgvector chooses the nearest; their scores are computed here, as on every home. Only the numbers of those that
 * are wanted leave the database.
 */
export async function compareInDatabase(sql: PostgresSql, search: VectorSearch): Promise<VectorAnswer> {
  const { where, parameters } = conditions(search);
  const place = parameters.length + 1;
  const rows = await query<Omit<VectorRow, 'numbers'> & { numbers: Buffer | null }>(
    sql,
    `SELECT collection, id, version, author, time_ms, expires_ms,
        CASE WHEN row_number() OVER (ORDER BY distance) <= $${place + 1}::bigint THEN array_send(numbers) END AS numbers
      FROM (SELECT *, numbers::vector <=> $${place}::text::vector AS distance FROM find.vectors WHERE ${where}
        ORDER BY distance LIMIT $${place + 2}) AS nearest`,
    [...parameters, `[${search.vector.join(',')}]`, search.wanted, search.limit + 1],
  );
  const best = new MostSimilar(search);
  const slices = new Slices();
  for (const { numbers, ...row } of rows) {
    if (numbers !== null) add(best, { ...row, numbers });
    await slices.pause();
  }
  return {
    entries: best.inOrder(),
    isComplete: rows.length <= search.limit,
    isWhole: search.wanted === search.limit || rows.length <= search.wanted,
  };
}

function add(best: MostSimilar, row: VectorRow): void {
  const { collection, id, version, author, time_ms: timeMs, expires_ms: expiresMs } = row;
  best.add(
    {
      name: { kind: 'data', collection, id },
      version: Number(version),
      author,
      timeMs: Number(timeMs),
      expiresAtMs: expiresMs === null ? null : Number(expiresMs),
    },
    numbersOf(row.numbers),
  );
}

function numbersOf(sent: Buffer): Float32Array {
  const numbers = new Float32Array(Math.max(0, (sent.length - arrayHeadBytes) / arrayItemBytes));
  const view = new DataView(sent.buffer, sent.byteOffset, sent.byteLength);
  for (let at = 0; at < numbers.length; at += 1)
    numbers[at] = view.getFloat32(arrayHeadBytes + at * arrayItemBytes + 4);
  return numbers;
}

/** The rows that a search covers: only vectors that can be compared with the searched one. */
function conditions(search: VectorSearch): { where: string; parameters: Parameter[] } {
  const { user, space, vector, namespaces, prefix, author, sinceMs, untilMs, nowMs } = search;
  const parameters: Parameter[] = [];
  const given = (value: Parameter): string => `$${parameters.push(value)}`;
  const parts = [
    `owner = ${given(user)}`,
    `space = ${given(space)}`,
    `cardinality(numbers) = ${given(vector.length)}::int`,
    `(expires_ms IS NULL OR expires_ms > ${given(Math.floor(nowMs))}::bigint)`,
  ];
  if (namespaces !== null) parts.push(`collection = ANY(${given(namespaces)}::text[])`);
  if (prefix !== null) parts.push(`starts_with(id, ${given(prefix)})`);
  if (author !== null) parts.push(`author = ${given(author)}`);
  if (sinceMs !== null) parts.push(`time_ms >= ${given(sinceMs)}::bigint`);
  if (untilMs !== null) parts.push(`time_ms < ${given(untilMs)}::bigint`);
  return { where: parts.join(' AND '), parameters };
}
