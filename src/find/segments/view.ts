/**
 * What one search sees: the segments and waiting entries of the partitions that it covers, limited to the collections
 * of the caller and to entries that are live. Every entry has an ordinal, so that a ranking can add scores in an
 * array. A home reads the rows in one snapshot; everything after that is this code, the same on every home.
 */
import type { EntryName, FindKind } from '../model.js';
import type { TermUse } from '../words/entry-terms.js';
import { blockTerms, listIn } from './blocks.js';
import { ByteReader } from './bytes.js';
import type { Catalog, IndexedFacts } from './catalog.js';
import { packedLengths, packedTerms } from './packed-terms.js';
import { readUse, visitPostings } from './postings.js';
import type { DeadPlaces, WaitingEntry } from './segment.js';
import { compareWords } from './word-order.js';

/** A segment as a search reads it: its catalog, and the blocks that may have the terms of the query. */
export interface ViewedSegment {
  readonly catalog: Catalog;
  readonly dead: DeadPlaces;
  readonly blocks: readonly Buffer[];
}

/** The rows of one partition. */
export interface ViewedPartition {
  readonly segments: readonly ViewedSegment[];
  /** The places that were written since they were filed: their entries in segments are not seen. */
  readonly marked: readonly EntryName[];
  /** The marked places that have an entry. */
  readonly waiting: readonly WaitingEntry[];
}

export interface ViewFilter {
  readonly hasCollection: (kind: FindKind, collection: string) => boolean;
  readonly nowMs: number;
}

/** The entries that have a term, in ascending order of their ordinals. */
export interface TermList {
  readonly ordinals: Int32Array;
  use(index: number): TermUse;
}

/** A segment in the view: its first ordinal, and for each of its entries whether it is seen. */
interface Seen {
  readonly base: number;
  readonly segment: ViewedSegment;
  readonly isSeen: Uint8Array;
}

interface SeenWaiting extends IndexedFacts {
  readonly packed: Buffer;
  readonly terms: ReadonlyMap<string, { readonly hasCounts: boolean; readonly from: number }>;
}

export class IndexView {
  /** All ordinals are below this. */
  readonly ordinals: number;
  /** The number of entries that the search covers, and the words of their titles and bodies. */
  count = 0;
  titleLength = 0;
  bodyLength = 0;
  readonly #segments: readonly Seen[];
  readonly #waiting: readonly SeenWaiting[];
  readonly #waitingBase: number;
  readonly #lists = new Map<string, TermList>();

  constructor(partitions: readonly ViewedPartition[], filter: ViewFilter) {
    let base = 0;
    this.#segments = partitions.flatMap(({ segments, marked }) =>
      segments.map((segment): Seen => {
        const seen = { base, segment, isSeen: this.#seenIn(segment, marked, filter) };
        base += segment.catalog.count;
        return seen;
      }),
    );
    this.#waitingBase = base;
    this.#waiting = partitions
      .flatMap(({ waiting }) => waiting)
      .filter(({ name, expiresAtMs }) => isCovered(name, expiresAtMs ?? Infinity, filter))
      .map(seenWaiting);
    for (const { titleLength, bodyLength } of this.#waiting) this.#count(titleLength, bodyLength);
    this.ordinals = base + this.#waiting.length;
  }

  list(term: string): TermList {
    let list = this.#lists.get(term);
    if (list === undefined) {
      list = this.#read(term);
      this.#lists.set(term, list);
    }
    return list;
  }

  /** The first terms that begin so and that an entry of the search has, in order. */
  beginning(begin: string, max: number): string[] {
    const found = new Set<string>();
    for (const { segment, isSeen } of this.#segments)
      for (const body of segment.blocks)
        for (const { term, from, to } of blockTerms(body))
          if (term.startsWith(begin) && !found.has(term) && hasSeen(new ByteReader(body, from, to), isSeen))
            found.add(term);
    for (const { terms } of this.#waiting)
      for (const term of terms.keys()) if (term.startsWith(begin)) found.add(term);
    return [...found].toSorted(compareWords).slice(0, max);
  }

  /** The ordinals of all entries that the search covers. */
  *all(): Generator<number> {
    for (const { base, isSeen } of this.#segments)
      for (let place = 0; place < isSeen.length; place += 1) if (isSeen[place] === 1) yield base + place;
    for (let index = 0; index < this.#waiting.length; index += 1) yield this.#waitingBase + index;
  }

  facts(ordinal: number): IndexedFacts {
    const waiting = this.#waiting[ordinal - this.#waitingBase];
    if (waiting !== undefined) return waiting;
    const { base, segment } = this.#segmentOf(ordinal);
    return segment.catalog.facts(ordinal - base);
  }

  /** The facts that a score depends on; `facts` costs more, because it makes texts. */
  scored(ordinal: number): { titleLength: number; bodyLength: number; timeMs: number } {
    const waiting = this.#waiting[ordinal - this.#waitingBase];
    if (waiting !== undefined) return waiting;
    const { base, segment } = this.#segmentOf(ordinal);
    const { titleLengths, bodyLengths, times } = segment.catalog;
    const place = ordinal - base;
    return {
      titleLength: titleLengths[place] ?? 0,
      bodyLength: bodyLengths[place] ?? 0,
      timeMs: times[place] ?? 0,
    };
  }

  #seenIn(segment: ViewedSegment, marked: readonly EntryName[], filter: ViewFilter): Uint8Array {
    const { catalog, dead } = segment;
    const isSeen = new Uint8Array(catalog.count);
    for (const { kind, collection, from, to } of catalog.ranges) {
      if (!filter.hasCollection(kind, collection)) continue;
      for (let place = from; place < to; place += 1)
        if ((catalog.expiries[place] ?? 0) > filter.nowMs && !dead.has(place)) isSeen[place] = 1;
    }
    for (const name of marked) {
      const place = catalog.placeOf(name);
      if (place >= 0) isSeen[place] = 0;
    }
    for (let place = 0; place < isSeen.length; place += 1)
      if (isSeen[place] === 1) this.#count(catalog.titleLengths[place] ?? 0, catalog.bodyLengths[place] ?? 0);
    return isSeen;
  }

  #count(titleLength: number, bodyLength: number): void {
    this.count += 1;
    this.titleLength += titleLength;
    this.bodyLength += bodyLength;
  }

  #segmentOf(ordinal: number): Seen {
    let [low, high] = [0, this.#segments.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.#segments[middle] as Seen).base <= ordinal) low = middle;
      else high = middle - 1;
    }
    const seen = this.#segments[low];
    if (seen === undefined) throw new RangeError(`No entry has the ordinal ${ordinal}.`);
    return seen;
  }

  #read(term: string): TermList {
    const wanted = Buffer.from(term);
    const ordinals: number[] = [];
    // Where each use is: the index of its bytes, its place in them, and whether it has counts.
    const bodies: Buffer[] = [];
    const uses: number[] = [];
    for (const { base, segment, isSeen } of this.#segments)
      for (const body of segment.blocks) {
        const list = listIn(body, wanted);
        if (list === undefined) continue;
        const index = bodies.push(body) - 1;
        visitPostings(list, (place, hasCounts, at) => {
          if (isSeen[place] !== 1) return;
          ordinals.push(base + place);
          uses.push(index, at * 2 + (hasCounts ? 1 : 0));
        });
      }
    for (const [index, { packed, terms }] of this.#waiting.entries()) {
      const found = terms.get(term);
      if (found === undefined) continue;
      ordinals.push(this.#waitingBase + index);
      uses.push(bodies.push(packed) - 1, found.from * 2 + (found.hasCounts ? 1 : 0));
    }
    return {
      ordinals: Int32Array.from(ordinals),
      use: (index) => {
        const at = uses[index * 2 + 1] as number;
        return readUse(new ByteReader(bodies[uses[index * 2] as number] as Buffer, at >> 1), at % 2 === 1);
      },
    };
  }
}

function isCovered(name: EntryName, expiresAtMs: number, { hasCollection, nowMs }: ViewFilter): boolean {
  return expiresAtMs > nowMs && hasCollection(name.kind, name.collection);
}

function seenWaiting(entry: WaitingEntry): SeenWaiting {
  const terms = new Map<string, { hasCounts: boolean; from: number }>();
  for (const { term, hasCounts, from } of packedTerms(entry.packed)) terms.set(term, { hasCounts, from });
  return { ...entry, ...packedLengths(entry.packed), terms };
}

function hasSeen(list: ByteReader, isSeen: Uint8Array): boolean {
  let found = false;
  visitPostings(list, (place) => {
    found ||= isSeen[place] === 1;
  });
  return found;
}
