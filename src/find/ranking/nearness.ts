/** How close the words of a query stand to each other in an entry, and whether it has a phrase. */
import type { Phrase } from '../query/query.js';
import { nearWordsMax } from './formula.js';

/** The stored positions of a term in the entry; undefined if the entry does not have it. */
export type PositionsOf = (term: string) => ArrayLike<number> | undefined;

/**
 * From 0 to 1: for neighbouring words of the query, 1 if they stand side by side in this order, and less the further
 * apart they stand. `groups` has the sorted positions of each counted word; undefined for a missing word.
 */
export function nearnessOf(groups: readonly (ArrayLike<number> | undefined)[]): number {
  if (groups.length < 2) return 0;
  let sum = 0;
  for (let index = 1; index < groups.length; index += 1) {
    const [left, right] = [groups[index - 1], groups[index]];
    if (left === undefined || right === undefined) continue;
    const distance = leastDistance(left, right);
    if (distance <= nearWordsMax) sum += 1 / distance;
  }
  return sum / (groups.length - 1);
}

/** The least distance of two sorted lists. The wrong order counts as one word further. */
function leastDistance(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let best = Infinity;
  let at = 0;
  let to = 0;
  while (at < left.length && to < right.length) {
    const difference = (right[to] as number) - (left[at] as number);
    const distance = difference > 0 ? difference : 1 - difference;
    if (distance < best) best = distance;
    if (difference > 0) at += 1;
    else to += 1;
  }
  return best;
}

/** Whether the words of the phrase stand in the entry as in the query. */
export function hasPhrase(phrase: Phrase, positionsOf: PositionsOf): boolean {
  const [first, ...rest] = phrase.map(({ term, offset }) => ({ offset, positions: positionsOf(term) }));
  if (first?.positions === undefined) return false;
  for (const { positions } of rest) if (positions === undefined) return false;
  for (let at = 0; at < first.positions.length; at += 1) {
    const start = (first.positions[at] as number) - first.offset;
    if (rest.every(({ offset, positions }) => includes(positions as ArrayLike<number>, start + offset)))
      return true;
  }
  return false;
}

function includes(sorted: ArrayLike<number>, wanted: number): boolean {
  for (let at = 0; at < sorted.length; at += 1) if (sorted[at] === wanted) return true;
  return false;
}
