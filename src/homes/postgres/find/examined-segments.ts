/** Reads a segment of the search index with the fingerprints of all its words. */
import { Slices } from '../../../core/waiting/yielding.js';
import { addBlock, noFingerprints } from '../../../find/examine/fingerprints.js';
import type { ComparedSegment } from '../../../find/examine/states.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { DeadPlaces } from '../../../find/segments/segment.js';
import { type PostgresSql, query } from '../database/connection.js';
import { type SegmentRow, segmentColumns } from './segment-rows.js';

const blocksPerPage = 256;

/** Undefined if the segment was joined with others. Throws a `RangeError` if it cannot be read. */
export async function examinedSegment(
  sql: PostgresSql,
  owner: string,
  segment: string,
): Promise<(ComparedSegment & { row: SegmentRow }) | undefined> {
  const [row] = await query<SegmentRow>(
    sql,
    `SELECT ${segmentColumns} FROM find.segments WHERE owner = $1 AND segment = $2::bigint`,
    [owner, segment],
  );
  if (row === undefined) return undefined;
  const catalog = new Catalog(row.catalog);
  const sums = noFingerprints(catalog.count);
  const slices = new Slices();
  let [first, place] = ['', -1];
  for (;;) {
    const blocks = await query<{ body: Buffer; first: string; place: number }>(
      sql,
      `SELECT body, encode(first, 'hex') AS first, place FROM find.blocks
        WHERE owner = $1 AND segment = $2::bigint AND (first, place) > (decode($3, 'hex'), $4)
        ORDER BY first, place LIMIT $5`,
      [owner, segment, first, place, blocksPerPage],
    );
    for (const block of blocks) {
      addBlock(sums, block);
      await slices.pause();
    }
    const last = blocks.at(-1);
    if (last === undefined || blocks.length < blocksPerPage) break;
    ({ first, place } = last);
  }
  return { segment, catalog, dead: new DeadPlaces(row.dead), sums, row };
}
