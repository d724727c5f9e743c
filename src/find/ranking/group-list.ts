/** The entries that have a word of the query: the lists of all its terms as one. */
import type { QueryGroup } from '../query/query.js';
import type { TermList } from '../segments/postings.js';
import { beginningWordsMax } from '../segments/beginnings.js';

/** Where a search looks terms up. */
export interface TermLists {
  /** All ordinals are below this. */
  readonly ordinals: number;
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
  readonly list: GroupList;
  readonly weight: number;
}

/** The lists of the terms of a group. `isAll` is false if a beginning stands for more words than are looked at. */
export function* listsOf(
  group: QueryGroup,
  lists: TermLists,
): Generator<void, { readonly found: Weighted[]; readonly isAll: boolean }> {
  const found: Weighted[] = [];
  let isAll = true;
  for (const { term, weight, isPrefix } of group.terms) {
    const words = isPrefix ? lists.beginning(term, beginningWordsMax + 1) : [term];
    if (words.length > beginningWordsMax) isAll = false;
    for (const word of words.slice(0, beginningWordsMax)) {
      const list = lists.list(word);
      if (list.ordinals.length > 0) found.push({ list, weight });
      yield;
    }
  }
  return { found, isAll };
}

/** With more lists than this, adding in an array of all ordinals is faster than taking the least of each list. */
const listsJoinedInOrderMax = 8;

export function joinLists(lists: readonly Weighted[], ordinalsMax: number): GroupList {
  const [only] = lists;
  if (only !== undefined && lists.length === 1 && only.weight === 1) return only.list;
  if (lists.length > listsJoinedInOrderMax) return addedLists(lists, ordinalsMax);
  const joined = joinedInOrder(lists);
  return {
    ...joined,
    positions: (index) => {
      const ordinal = joined.ordinals[index] as number;
      const places = lists.flatMap(({ list }) => {
        const place = indexOf(list.ordinals, ordinal);
        return place < 0 ? [] : list.positions(place);
      });
      return lists.length === 1 ? places : [...new Set(places)].toSorted((a, b) => a - b);
    },
  };
}

type Counted = Omit<GroupList, 'positions'>;

function addedLists(lists: readonly Weighted[], ordinalsMax: number): GroupList {
  const [titles, bodies] = [new Float64Array(ordinalsMax), new Float64Array(ordinalsMax)];
  /** How many lists have each entry. */
  const uses = new Int32Array(ordinalsMax);
  let total = 0;
  for (const { list, weight } of lists)
    for (let index = 0; index < list.ordinals.length; index += 1) {
      const ordinal = list.ordinals[index] as number;
      uses[ordinal] = (uses[ordinal] as number) + 1;
      titles[ordinal] = (titles[ordinal] as number) + weight * (list.titles[index] as number);
      bodies[ordinal] = (bodies[ordinal] as number) + weight * (list.bodies[index] as number);
      total += 1;
    }
  const found: number[] = [];
  /** Where the uses of each entry begin in `usedBy`. Filling them in moves it to their end. */
  const next = new Int32Array(ordinalsMax);
  let first = 0;
  for (let ordinal = 0; first < total; ordinal += 1) {
    if (uses[ordinal] === 0) continue;
    // The counts move to the front: an ordinal is never below its index.
    titles[found.length] = titles[ordinal] as number;
    bodies[found.length] = bodies[ordinal] as number;
    next[ordinal] = first;
    first += uses[ordinal] as number;
    found.push(ordinal);
  }
  /** For each use, its list and its index there. */
  const [usedBy, usedAt] = [new Int32Array(total), new Int32Array(total)];
  for (const [number, { list }] of lists.entries())
    for (let index = 0; index < list.ordinals.length; index += 1) {
      const ordinal = list.ordinals[index] as number;
      const at = next[ordinal] as number;
      [usedBy[at], usedAt[at]] = [number, index];
      next[ordinal] = at + 1;
    }
  return {
    ordinals: Int32Array.from(found),
    titles,
    bodies,
    positions: (index) => {
      const places = new Set<number>();
      const ordinal = found[index] as number;
      const end = next[ordinal] as number;
      for (let at = end - (uses[ordinal] as number); at < end; at += 1)
        for (const place of (lists[usedBy[at] as number] as Weighted).list.positions(usedAt[at] as number))
          places.add(place);
      return [...places].toSorted((a, b) => a - b);
    },
  };
}

function joinedInOrder(lists: readonly Weighted[]): Counted {
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
  return { ordinals: ordinals.subarray(0, count), titles, bodies };
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
