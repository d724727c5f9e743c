/** The entries of one segment that have all words of a search, newest first. */
import { listIn } from './blocks.js';
import type { ByteReader } from './bytes.js';
import type { Catalog } from './catalog.js';
import { ListReader } from './postings.js';

/** Where the lists of one word are in the blocks of a segment. */
export interface WordLists {
  /** For each term of the word, the parts of its list. */
  readonly lists: readonly (readonly ByteReader[])[];
  /** The bytes of all lists. */
  readonly size: number;
}

/** The lists of a word that is stored under one of these terms, or several. */
export function listsWith(terms: readonly string[], blocks: readonly Buffer[]): WordLists {
  let size = 0;
  const lists = terms.map((term) => {
    const wanted = Buffer.from(term);
    return blocks.flatMap((body) => {
      const list = listIn(body, wanted);
      if (list === undefined) return [];
      size += list.end - list.at;
      return [list];
    });
  });
  return { lists, size };
}

/** The places of the entries in the lists, in ascending order. The lists are read up. */
export function placesIn({ lists }: WordLists): number[] {
  const places: number[] = [];
  for (const parts of lists) for (const part of parts) places.push(...new ListReader(part).places());
  const isOne = lists.filter(({ length }) => length > 0).length < 2;
  return isOne ? places : [...new Set(places)].toSorted((a, b) => a - b);
}

/** The places that are in both lists, which are in ascending order. */
export function placesInBoth(a: readonly number[], b: readonly number[]): number[] {
  const both: number[] = [];
  let at = 0;
  for (const place of a) {
    while (at < b.length && (b[at] as number) < place) at += 1;
    if (b[at] === place) both.push(place);
  }
  return both;
}

/** A heap: a search takes the few newest of what may be thousands, so sorting all of them would be wasted. */
export class NewestMatches {
  readonly catalog: Catalog;
  readonly times: Float64Array;
  readonly #places: number[];

  /** The list becomes the heap. */
  constructor(catalog: Catalog, times: Float64Array, places: number[]) {
    this.catalog = catalog;
    this.times = times;
    this.#places = places;
    for (let at = (places.length >> 1) - 1; at >= 0; at -= 1) this.#sink(at);
  }

  /** The place of the newest match that is left. */
  get newest(): number | undefined {
    return this.#places[0];
  }

  take(): void {
    const last = this.#places.pop();
    if (last === undefined || this.#places.length === 0) return;
    this.#places[0] = last;
    this.#sink(0);
  }

  #sink(from: number): void {
    const places = this.#places;
    for (let at = from; ;) {
      let newest = at;
      const left = 2 * at + 1;
      if (left < places.length && this.#isNewer(left, newest)) newest = left;
      if (left + 1 < places.length && this.#isNewer(left + 1, newest)) newest = left + 1;
      if (newest === at) return;
      [places[at], places[newest]] = [places[newest] as number, places[at] as number];
      at = newest;
    }
  }

  #isNewer(a: number, b: number): boolean {
    const { catalog, times } = this;
    const [x, y] = [this.#places[a] as number, this.#places[b] as number];
    const difference = (times[x] ?? 0) - (times[y] ?? 0);
    return difference > 0 || (difference === 0 && catalog.id(x) > catalog.id(y));
  }
}
