/** When segments are joined: few segments make searches fast, and rare merges make writes cheap. */

/** What the choice depends on. */
export interface SegmentState {
  readonly entries: number;
  /** Entries that were deleted or written again. */
  readonly dead: number;
  /** Since when the segment has dead entries; null if it has none. */
  readonly deadSinceMs: number | null;
}

/**
 * An entry is written about once for each tier: four times for 16,384 entries. With eight, 10,000 entries are
 * in up to 14 segments, and a search looks up each of its words in each of them; with four, in up to 8.
 */
const segmentsPerTier = 4;
/** The first tier: what is filed at once. */
const firstTierEntries = 64;
/** Larger segments are not joined, so that one merge never takes long. */
const segmentEntriesMax = 16_384;
/** A segment with more dead entries than this share is written again: it is read for nothing. */
const deadShareMax = 0.25;

/** The segments to join next, or null. One segment alone is written again without its dead entries. */
export function nextMerge<State extends SegmentState>(
  segments: readonly State[],
  nowMs: number,
  deadMsMax: number,
): State[] | null {
  const rotten = segments.find(
    ({ entries, dead, deadSinceMs }) =>
      dead > entries * deadShareMax || (deadSinceMs !== null && nowMs - deadSinceMs >= deadMsMax),
  );
  if (rotten !== undefined) return [rotten];
  const tiers = new Map<number, State[]>();
  for (const segment of segments) {
    const tier = tierOf(segment.entries - segment.dead);
    tiers.set(tier, [...(tiers.get(tier) ?? []), segment]);
  }
  for (const [, same] of [...tiers].toSorted(([a], [b]) => a - b)) {
    const joined = same.slice(0, segmentsPerTier);
    if (joined.length === segmentsPerTier && living(joined) <= segmentEntriesMax) return joined;
  }
  return null;
}

function tierOf(entries: number): number {
  return Math.max(0, Math.floor(Math.log(entries / firstTierEntries) / Math.log(segmentsPerTier)));
}

function living(segments: readonly SegmentState[]): number {
  return segments.reduce((sum, { entries, dead }) => sum + entries - dead, 0);
}
