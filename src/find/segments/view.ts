/**
 * What one search sees: the segments and waiting entries of the partitions that it covers, limited to the
 * collections of the caller and to entries that are live. Every entry has an ordinal, so that a ranking can
 * add scores in an array. A home reads the rows in one snapshot; everything after that is this code, the same
 * on every home.
 */
import type { EntryName, FindKind } from '../model.js';
import type { Begun } from './beginnings.js';
import { compareFirst, listIn } from './blocks.js';
import { ByteReader } from './bytes.js';
import type { Catalog, IndexedFacts } from './catalog.js';
import type { ChangedPlaces, SegmentFacts } from './facts.js';
import { type Counts, ListBuilder, ListReader, type TermList, readCounts } from './postings.js';
import type { DeadPlaces } from './segment.js';
import type { SeenWaiting } from './waiting.js';
import { compareWords } from './word-order.js';
import { isStemTerm } from '../words/entry-terms.js';

/** A segment as a search reads it: its catalog, and the blocks that may have the terms of the query. */
export interface ViewedSegment {
  readonly catalog: Catalog;
  readonly facts: SegmentFacts;
  readonly dead: DeadPlaces;
  /** In the order of their terms and places. */
  readonly blocks: readonly Buffer[];
  /** What waits to be written into the facts. */
  readonly changed?: ChangedPlaces | undefined;
}

/** The rows of one partition. */
export interface ViewedPartition {
  readonly segments: readonly ViewedSegment[];
  /** The places that were written since they were filed: their entries in segments are not seen. */
  readonly marked: readonly EntryName[];
  /** The marked places that have an entry, with the terms that the search looks up. */
  readonly waiting: readonly SeenWaiting[];
  /** By beginning (`dep*`): its words in the segments. */
  readonly begun?: ReadonlyMap<string, Begun>;
}

export interface ViewFilter {
  readonly hasCollection: (kind: FindKind, collection: string) => boolean;
  readonly nowMs: number;
}

/** A segment in the view: its first ordinal, and for each of its entries whether it is seen. */
interface Seen {
  readonly base: number;
  readonly segment: ViewedSegment;
  readonly isSeen: Uint8Array;
  /** The blocks with the words of a beginning. */
  readonly begun: (begin: string) => readonly Buffer[] | undefined;
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
  /** By beginning: its words in the segments of all partitions. */
  readonly #begun = new Map<string, Set<string>>();
  /** The segment that `#segmentOf` found last. */
  #last: Seen | undefined;

  constructor(partitions: readonly ViewedPartition[], filter: ViewFilter) {
    let base = 0;
    this.#segments = partitions.flatMap(({ segments, marked, begun }) =>
      segments.map((segment, index): Seen => {
        const blocks = (begin: string): readonly Buffer[] | undefined => begun?.get(begin)?.blocks[index];
        const seen = { base, segment, isSeen: seenPlaces(segment, marked, filter), begun: blocks };
        this.#countSeen(seen);
        base += segment.catalog.count;
        return seen;
      }),
    );
    for (const { begun = [] } of partitions)
      for (const [begin, { words }] of begun)
        this.#begun.set(begin, new Set([...(this.#begun.get(begin) ?? []), ...words]));
    this.#waitingBase = base;
    this.#waiting = partitions
      .flatMap(({ waiting }) => waiting)
      .filter(({ name, expiresAtMs }) => isCovered(name, expiresAtMs ?? Infinity, filter));
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

  /** The first words that begin so and that an entry of the search has, in order. */
  beginning(begin: string, max: number): string[] {
    const found = new Set(this.#begun.get(begin));
    for (const { terms } of this.#waiting)
      for (const term of terms.keys()) if (term.startsWith(begin) && !isStemTerm(term)) found.add(term);
    return [...found].toSorted(compareWords).slice(0, max);
  }

  /** The ordinals of all entries that the search covers. */
  *all(): Generator<number> {
    for (const { base, isSeen } of this.#segments)
      for (let place = 0; place < isSeen.length; place += 1) if (isSeen[place] === 1) yield base + place;
    for (let index = 0; index < this.#waiting.length; index += 1) yield this.#waitingBase + index;
  }

  facts(ordinal: number): IndexedFacts {
    if (ordinal >= this.#waitingBase) return this.#waiting[ordinal - this.#waitingBase] as SeenWaiting;
    const { base, segment } = this.#segmentOf(ordinal);
    const place = ordinal - base;
    return segment.catalog.entry(place, segment.changed?.get(place) ?? segment.facts.at(place));
  }

  /** The facts that a score depends on; `facts` costs more, because it makes texts. */
  scored(ordinal: number): { titleLength: number; bodyLength: number; timeMs: number } {
    // Looking up an index below 0 took a fifth of a search for one word.
    if (ordinal >= this.#waitingBase) return this.#waiting[ordinal - this.#waitingBase] as SeenWaiting;
    const { base, segment } = this.#segmentOf(ordinal);
    const { titleLengths, bodyLengths } = segment.catalog;
    const place = ordinal - base;
    return {
      titleLength: titleLengths[place] ?? 0,
      bodyLength: bodyLengths[place] ?? 0,
      timeMs: segment.changed?.get(place)?.timeMs ?? segment.facts.times[place] ?? 0,
    };
  }

  #countSeen({ segment: { catalog }, isSeen }: Seen): void {
    const { titleLengths, bodyLengths } = catalog;
    for (let place = 0; place < isSeen.length; place += 1)
      if (isSeen[place] === 1) this.#count(titleLengths[place] as number, bodyLengths[place] as number);
  }

  #count(titleLength: number, bodyLength: number): void {
    this.count += 1;
    this.titleLength += titleLength;
    this.bodyLength += bodyLength;
  }

  /** The beginning that brought the blocks of the term; undefined if the query has the term itself. */
  #beginOf(term: string): string | undefined {
    for (const [begin, words] of this.#begun) if (words.has(term)) return begin;
    return undefined;
  }

  #segmentOf(ordinal: number): Seen {
    const last = this.#last;
    if (last !== undefined && ordinal >= last.base && ordinal < last.base + last.isSeen.length) return last;
    let [low, high] = [0, this.#segments.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >>> 1;
      if ((this.#segments[middle] as Seen).base <= ordinal) low = middle;
      else high = middle - 1;
    }
    const seen = this.#segments[low];
    if (seen === undefined) throw new RangeError(`No entry has the ordinal ${ordinal}.`);
    this.#last = seen;
    return seen;
  }

  #read(term: string): TermList {
    const wanted = Buffer.from(term);
    const builder = new ListBuilder();
    const begin = this.#beginOf(term);
    for (const { base, segment, isSeen, begun } of this.#segments)
      for (const body of blocksWith((begin === undefined ? null : begun(begin)) ?? segment.blocks, wanted)) {
        const list = listIn(body, wanted);
        if (list !== undefined) new ListReader(list).addTo(builder, base, isSeen);
      }
    const counts: Counts = { title: 0, body: 0, positions: 0 };
    for (const [index, { terms }] of this.#waiting.entries()) {
      const found = terms.get(term);
      if (found === undefined) continue;
      const { bytes, shape, countsFrom, positionsFrom, positionsTo } = found;
      readCounts(new ByteReader(bytes, countsFrom), shape, counts);
      builder.beginPart({ bytes, at: positionsFrom, end: positionsTo });
      builder.add(this.#waitingBase + index, counts, 0);
    }
    return builder.list();
  }
}

/** For each entry of a segment, whether the search covers it. */
export function seenPlaces(
  { catalog, dead }: Pick<ViewedSegment, 'catalog' | 'dead'>,
  marked: readonly EntryName[],
  { hasCollection, nowMs }: ViewFilter,
): Uint8Array {
  const isSeen = new Uint8Array(catalog.count);
  const { expiries } = catalog;
  const ranges = catalog.ranges.filter(({ kind, collection }) => hasCollection(kind, collection));
  for (const { from, to } of ranges) isSeen.fill(1, from, to);
  for (const place of dead.places()) isSeen[place] = 0;
  for (const name of marked) {
    const place = hasCollection(name.kind, name.collection) ? catalog.placeOf(name) : -1;
    if (place >= 0) isSeen[place] = 0;
  }
  if (expiries === null) return isSeen;
  for (const { from, to } of ranges)
    for (let place = from; place < to; place += 1)
      if ((expiries[place] as number) <= nowMs) isSeen[place] = 0;
  return isSeen;
}

/** The blocks that can have a term: those that begin with it, and the one before them. */
function blocksWith(blocks: readonly Buffer[], term: Buffer): readonly Buffer[] {
  let [low, high] = [0, blocks.length];
  // The first block that begins with the term or a later one.
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (compareFirst(blocks[middle] as Buffer, term) < 0) low = middle + 1;
    else high = middle;
  }
  let end = low;
  while (end < blocks.length && compareFirst(blocks[end] as Buffer, term) === 0) end += 1;
  return blocks.slice(Math.max(0, low - 1), end);
}

function isCovered(name: EntryName, expiresAtMs: number, { hasCollection, nowMs }: ViewFilter): boolean {
  return expiresAtMs > nowMs && hasCollection(name.kind, name.collection);
}
