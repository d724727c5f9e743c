/** The entries that have a word of the query: the lists of all its terms as one. */
import type { QueryGroup } from '../query/query.js';
import type { TermList } from '../segments/postings.js';
import { beginningWordsMax } from '../segments/waiting.js';

/** Where a search looks terms up. */
export interface TermLists {
  list(term: string): TermList;
  /** The first terms that begin so, in order. */
  beginning(begin: string, max: number): string[];
}

export interface GroupList {
  /** Ascending, each once. */
  readonly ordinals: Int32Array;
  /** The counts of all terms, each multiplied by its weight. */
  readonly titles: Float64Array | Int32Array;
  readonly bodies: Float64Array | Int32Array;
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
  const [only] = lists;
  if (only !== undefined && lists.length === 1 && only.weight === 1) return only.list;
  const total = lists.reduce((sum, { list }) => sum + list.ordinals.length, 0);
  const ordinals = new Int32Array(total);
  const titles = new Float64Array(total);
  const bodies = new Float64Array(total);
  const at = new Int32Array(lists.length);
  let count = 0;
  while (true) {
    let least = endOrdinal;
    for (let index = 0; index < lists.length; index += 1) {
      const next = (lists[index] as Weighted).list.ordinals[at[index] as number] ?? endOrdinal;
      if (next < least) least = next;
    }
    if (least === endOrdinal) break;
    let title = 0;
    let body = 0;
    for (let index = 0; index < lists.length; index += 1) {
      const { list, weight } = lists[index] as Weighted;
      const place = at[index] as number;
      if (list.ordinals[place] !== least) continue;
      title += weight * (list.titles[place] as number);
      body += weight * (list.bodies[place] as number);
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
        return place < 0 ? [] : list.positions(place);
      });
      return lists.length === 1 ? places : [...new Set(places)].toSorted((a, b) => a - b);
    },
  };
}

/** Above every ordinal. */
const endOrdinal = 0x7fffffff;

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
