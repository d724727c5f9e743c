/** Reads a segment of the search index with the fingerprints of all its words. */
import { Slices } from '../../../core/waiting/yielding.js';
import { addBlock, noFingerprints } from '../../../find/examine/fingerprints.js';
import type { ComparedSegment } from '../../../find/examine/states.js';
import { Catalog } from '../../../find/segments/catalog.js';
import { SegmentFacts } from '../../../find/segments/facts.js';
import { DeadPlaces } from '../../../find/segments/segment.js';
import { type PostgresSql, query } from '../database/connection.js';
import { type SegmentRow, blocksOf, segmentColumns } from './segment-rows.js';

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
  for await (const block of blocksOf(sql, owner, segment)) {
    addBlock(sums, block);
    await slices.pause();
  }
  const facts = new SegmentFacts(row.facts, catalog.count);
  return { segment, catalog, facts, dead: new DeadPlaces(row.dead), sums, row };
}
