/** The entries that have a word of the query: the lists of all its terms as one. */
import type { QueryGroup } from '../query/query.js';
import type { TermUse } from '../words/entry-terms.js';

/** The entries that have a term, in ascending order of their ordinals. */
export interface TermList {
  readonly ordinals: Int32Array;
  use(index: number): TermUse;
}

/** Where a search looks terms up. */
export interface TermLists {
  list(term: string): TermList;
  /** The first terms that begin so, in order. */
  beginning(begin: string, max: number): string[];
}

/** Words that a beginning (`dep*`) stands for; further ones are not looked at. */
export const beginningWordsMax = 64;

export interface GroupList {
  /** Ascending, each once. */
  readonly ordinals: Int32Array;
  /** The counts of all terms, each multiplied by its weight. */
  readonly titles: Float64Array;
  readonly bodies: Float64Array;
  /** The sorted places of all terms in the entry at an index. */
  positions(index: number): number[];
}

interface Weighted {
  readonly list: TermList;
  readonly weight: number;
}

/** The lists of the terms of a group. */
export function listsOf(group: QueryGroup, lists: TermLists): Weighted[] {
  return group.terms.flatMap(({ term, weight, isPrefix }) =>
    (isPrefix ? lists.beginning(term, beginningWordsMax) : [term])
      .map((word) => ({ list: lists.list(word), weight }))
      .filter(({ list }) => list.ordinals.length > 0),
  );
}

export function joinLists(lists: readonly Weighted[]): GroupList {
  const total = lists.reduce((sum, { list }) => sum + list.ordinals.length, 0);
  const ordinals = new Int32Array(total);
  const titles = new Float64Array(total);
  const bodies = new Float64Array(total);
  const at = new Int32Array(lists.length);
  let count = 0;
  while (true) {
    let least = -1;
    for (let index = 0; index < lists.length; index += 1) {
      const next = (lists[index] as Weighted).list.ordinals[at[index] as number];
      if (next !== undefined && (least < 0 || next < least)) least = next;
    }
    if (least < 0) break;
    let [title, body] = [0, 0];
    for (let index = 0; index < lists.length; index += 1) {
      const { list, weight } = lists[index] as Weighted;
      const place = at[index] as number;
      if (list.ordinals[place] !== least) continue;
      const use = list.use(place);
      title += weight * use.title;
      body += weight * use.body;
      at[index] = place + 1;
    }
    ordinals[count] = least;
    titles[count] = title;
    bodies[count] = body;
    count += 1;
  }
  const joined = ordinals.subarray(0, count);
  return {
    ordinals: joined,
    titles,
    bodies,
    positions: (index) => {
      const ordinal = joined[index] as number;
      const places = lists.flatMap(({ list }) => {
        const place = indexOf(list.ordinals, ordinal);
        return place < 0 ? [] : list.use(place).positions;
      });
      return lists.length === 1 ? places : [...new Set(places)].toSorted((a, b) => a - b);
    },
  };
}

/** The index of a value in a sorted list, or -1. */
export function indexOf(sorted: Int32Array, wanted: number): number {
  let [low, high] = [0, sorted.length - 1];
  while (low <= high) {
    const middle = (low + high) >>> 1;
    const value = sorted[middle] as number;
    if (value === wanted) return middle;
    if (value < wanted) low = middle + 1;
    else high = middle - 1;
  }
  return -1;
}
