/** The words that beginnings (`dep*`) stand for in the segments of an owner. */
import { type BegunSegment, type BegunWords, wordsBeginningWith } from '../../../find/segments/beginnings.js';
import { type ViewFilter, seenPlaces } from '../../../find/segments/view.js';
import { type PostgresSql, query } from '../database/connection.js';
import type { GatheredOwner } from './gather.js';
import { blocksOf } from './segment-rows.js';

const nothingBegun: BegunWords = { words: new Map(), isComplete: true };

/** Null if a segment was joined with others meanwhile: the caller gathers again. */
export async function begunWords(
  sql: PostgresSql,
  { owner, marks, segments }: GatheredOwner,
  beginnings: readonly string[],
  filter: ViewFilter,
): Promise<BegunWords | null> {
  if (beginnings.length === 0 || segments.length === 0) return nothingBegun;
  const marked = marks.map(({ name }) => name);
  const begun = segments.map((segment): BegunSegment => ({
    isSeen: seenPlaces(segment, marked, filter),
    blocksFrom: (begin) => blocksOf(sql, owner, segment.number, begin),
  }));
  const words = await wordsBeginningWith(beginnings, begun);
  // Segments do not change. One that is still there was there while its blocks were read.
  const [left] = await query<{ count: number }>(
    sql,
    'SELECT count(*)::integer AS count FROM find.segments WHERE owner = $1 AND segment = ANY($2::bigint[])',
    [owner, segments.map(({ number }) => number)],
  );
  return left?.count === segments.length ? words : null;
}
