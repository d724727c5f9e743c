/**
 * The rows of segments and blocks in PostgreSQL. Blocks travel in base64: reading them took half as long as
 * in hexadecimal.
 */
import type { NewSegment } from '../../../find/segments/segment.js';
import type { Block } from '../../../find/segments/blocks.js';
import { type Queryable, query } from '../database/connection.js';
import type { Work } from '../write/work.js';

/** Bytes of blocks in one statement. */
const statementBytes = 512 * 1024;

export interface SegmentRow {
  readonly segment: string;
  readonly entries: number;
  readonly dead_entries: number;
  readonly dead_since_ms: string | null;
  readonly catalog: Buffer;
  readonly facts: Buffer;
  readonly dead: Buffer;
}

export const segmentColumns = `segment, entries, dead_entries, catalog, facts, dead,
  (extract(epoch FROM dead_since) * 1000)::bigint AS dead_since_ms`;

/** Adds a segment and returns its number. `earliestExpiryMs` is Infinity if none of its entries expires. */
export async function insertSegment(
  work: Work,
  owner: string,
  { catalog, facts, entries }: Omit<NewSegment, 'blocks'>,
  earliestExpiryMs: number,
): Promise<string> {
  const [row] = await work.rows<{ segment: string }>(
    `INSERT INTO find.segments (owner, entries, catalog, facts, dead_since)
      VALUES ($1, $2, decode($3, 'base64'), decode($4, 'base64'), to_timestamp($5::double precision / 1000))
      RETURNING segment`,
    [
      owner,
      entries,
      catalog.toString('base64'),
      facts.toString('base64'),
      Number.isFinite(earliestExpiryMs) ? earliestExpiryMs : null,
    ],
  );
  return row?.segment ?? '';
}

/** Collects blocks and sends them in statements of a limited size. */
export class BlockRows {
  readonly #work: Work;
  readonly #owner: string;
  readonly #segment: string;
  #blocks: Block[] = [];
  #bytes = 0;

  constructor(work: Work, owner: string, segment: string) {
    this.#work = work;
    this.#owner = owner;
    this.#segment = segment;
  }

  async add(blocks: readonly Block[]): Promise<void> {
    for (const block of blocks) {
      this.#blocks.push(block);
      this.#bytes += block.body.length;
      if (this.#bytes >= statementBytes) await this.send();
    }
  }

  async send(): Promise<void> {
    const blocks = this.#blocks;
    if (blocks.length === 0) return;
    this.#blocks = [];
    this.#bytes = 0;
    await this.#work.rows(
      `INSERT INTO find.blocks (owner, segment, first, place, body)
        SELECT $1, $2::bigint, decode(first, 'hex'), place, decode(body, 'base64')
          FROM unnest($3::text[], $4::integer[], $5::text[]) AS given (first, place, body)`,
      [
        this.#owner,
        this.#segment,
        blocks.map(({ first }) => Buffer.from(first).toString('hex')),
        blocks.map(({ from }) => String(from)),
        blocks.map(({ body }) => body.toString('base64')),
      ],
    );
  }
}

/** Blocks that are read together. A merge of four segments has so many of each in memory: 1 MiB. */
const blocksPerRead = 64;
/** Of a look for some words, which ends soon. */
const blocksPerLook = 16;

/** The bodies of the blocks of a segment, in their order: all of them, or from the one that can have a word. */
export async function* blocksOf(
  sql: Queryable,
  owner: string,
  segment: string,
  from?: Buffer,
): AsyncGenerator<Buffer> {
  let [first, place] = [from?.toString('hex') ?? '', -1];
  if (from !== undefined)
    for (const { body } of await query<{ body: string }>(
      sql,
      `SELECT encode(body, 'base64') AS body FROM find.blocks
        WHERE owner = $1 AND segment = $2::bigint AND first < decode($3, 'hex')
        ORDER BY first DESC, place DESC LIMIT 1`,
      [owner, segment, first],
    ))
      yield Buffer.from(body, 'base64');
  for (;;) {
    const blocks = await query<{ body: string; first: string; place: number }>(
      sql,
      `SELECT encode(body, 'base64') AS body, encode(first, 'hex') AS first, place FROM find.blocks
        WHERE owner = $1 AND segment = $2::bigint AND (first, place) > (decode($3, 'hex'), $4)
        ORDER BY first, place LIMIT $5`,
      [owner, segment, first, place, from === undefined ? blocksPerRead : blocksPerLook],
    );
    for (const { body } of blocks) yield Buffer.from(body, 'base64');
    const last = blocks.at(-1);
    if (last === undefined || blocks.length < (from === undefined ? blocksPerRead : blocksPerLook)) return;
    ({ first, place } = last);
  }
}

export async function deleteSegments(work: Work, owner: string, segments: readonly string[]): Promise<void> {
  await work.rows('DELETE FROM find.blocks WHERE owner = $1 AND segment = ANY($2::bigint[])', [
    owner,
    segments,
  ]);
  await work.rows('DELETE FROM find.segments WHERE owner = $1 AND segment = ANY($2::bigint[])', [
    owner,
    segments,
  ]);
}
