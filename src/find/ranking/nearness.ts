/** How close the words of a query stand to each other in an entry, and whether it has a phrase. */
import type { Phrase } from '../query/query.js';
import { nearWordsMax, togetherShare } from './formula.js';

/** The stored positions of a term in the entry; undefined if the entry does not have it. */
export type PositionsOf = (term: string) => ArrayLike<number> | undefined;

/**
 * From 0 to 1. `groups` has the sorted positions of each counted word, undefined for a missing word, and
 * `weights` its inverse frequency. One part is how much of the question stands together in about one
 * sentence; the other is how close words that are neighbours in the question stand to each other.
 */
export function nearnessOf(
  groups: readonly (ArrayLike<number> | undefined)[],
  weights: readonly number[],
): number {
  if (groups.length < 2) return 1;
  return togetherShare * togetherOf(groups, weights) + (1 - togetherShare) * neighboursOf(groups);
}

/**
 * An upper bound of `nearnessOf` that needs no positions: most entries have too few of the words to be among
 * the best.
 */
export class NearnessMax {
  readonly #words: number;
  readonly #total: number;
  readonly #single: number;

  /** The weight of each counted word. */
  constructor(weights: readonly number[]) {
    this.#words = weights.length;
    this.#total = weights.reduce((sum, weight) => sum + weight, 0);
    this.#single = Math.max(0, ...weights);
  }

  /** For the sum of the weights of the words that an entry has, and the pairs of neighbours among them. */
  of(weight: number, neighbours: number): number {
    if (this.#words < 2) return 1;
    const [most, all] = [weight - this.#single, this.#total - this.#single];
    // One rounding of a sum must not leave out a result, hence the small reserve.
    const together = all <= 0 ? 0 : Math.max(0, most / all);
    return Math.min(
      1,
      togetherShare * together + ((1 - togetherShare) * neighbours) / (this.#words - 1) + 1e-9,
    );
  }
}

/** 1 if all words stand within `nearWordsMax` words; 0 if no two of them do. */
function togetherOf(groups: readonly (ArrayLike<number> | undefined)[], weights: readonly number[]): number {
  let total = 0;
  let single = 0;
  for (const weight of weights) {
    total += weight;
    single = Math.max(single, weight);
  }
  if (total <= single) return 0;
  // All positions in order, each with the number of its word.
  let count = 0;
  for (const positions of groups) count += positions?.length ?? 0;
  const places = new Float64Array(count);
  for (const [index, positions] of groups.entries())
    for (let at = 0; at < (positions?.length ?? 0); at += 1) {
      count -= 1;
      places[count] = ((positions as ArrayLike<number>)[at] as number) * groups.length + index;
    }
  places.sort();
  const inside = new Int32Array(groups.length);
  let sum = 0;
  let best = 0;
  let first = 0;
  for (const place of places) {
    const index = place % groups.length;
    inside[index] = (inside[index] as number) + 1;
    if (inside[index] === 1) sum += weights[index] as number;
    const limit = (Math.floor(place / groups.length) - nearWordsMax) * groups.length;
    for (; (places[first] as number) < limit; first += 1) {
      const left = (places[first] as number) % groups.length;
      inside[left] = (inside[left] as number) - 1;
      if (inside[left] === 0) sum -= weights[left] as number;
    }
    best = Math.max(best, sum);
  }
  return Math.min(1, Math.max(0, (best - single) / (total - single)));
}

/** 1 if the words stand side by side as in the question, and less the further apart they stand. */
function neighboursOf(groups: readonly (ArrayLike<number> | undefined)[]): number {
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
