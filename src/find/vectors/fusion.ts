/** Joins two orders of results into one: reciprocal rank fusion. */
import type { RankedEntry } from '../model.js';
import { compareRanked } from '../ranking/order.js';

/**
 * A result counts 1 / (k + rank) for each list that has it. 60 is the value of the paper that introduced the
 * method (Cormack, Clarke and Büttcher, 2009), which found results to change little between 30 and 100: with
 * a small k the first result of one list beats everything that both lists agree on, with a large k ranks no
 * longer matter.
 */
const fusionConstant = 60;

/** The first of both lists has the score 1. */
export function fuse(lists: readonly (readonly RankedEntry[])[]): RankedEntry[] {
  const fused = new Map<string, RankedEntry>();
  for (const list of lists)
    for (const [place, entry] of list.entries()) {
      const { kind, collection, id } = entry.name;
      const name = JSON.stringify([kind, collection, id]);
      const share = (fusionConstant + 1) / (fusionConstant + 1 + place) / lists.length;
      // The facts of the first list count: words are never older than the document, vectors can be.
      const before = fused.get(name);
      fused.set(name, { ...(before ?? entry), score: (before?.score ?? 0) + share });
    }
  return [...fused.values()].toSorted(compareRanked);
}
