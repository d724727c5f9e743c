/** Makes segments: from the entries that waited, or from several older segments. */
import type { EntryFacts } from '../model.js';
import { compareNames } from '../ranking/order.js';
import { type Block, BlockWriter, blockTerms } from './blocks.js';
import type { ByteReader } from './bytes.js';
import { type Catalog, CatalogWriter, type IndexedFacts } from './catalog.js';
import { packedLengths, packedTerms } from './packed-terms.js';
import { ListReader, type Posting } from './postings.js';
import { compareWords } from './word-order.js';

/** An entry that is not in a segment yet, with its packed terms. */
export interface WaitingEntry extends EntryFacts {
  readonly packed: Buffer;
}

/** Bytes of packed words after which a new segment is full. Filing holds them all in memory, as lists of places. */
export const packedBytesMax = 1024 * 1024;

/** The rows of a new segment. */
export interface NewSegment {
  readonly catalog: Buffer;
  /** The number of entries. */
  readonly entries: number;
  /** In the order of their terms. */
  readonly blocks: readonly Block[];
}

/** Makes a segment of entries, each with another name. It lets other work run between steps. */
export function* fileEntries(entries: readonly WaitingEntry[]): Generator<void, NewSegment> {
  const inOrder = entries.toSorted((a, b) => compareNames(a.name, b.name));
  const earliestMs = inOrder.reduce((least, { timeMs }) => Math.min(least, timeMs), Infinity);
  const catalog = new CatalogWriter(Number.isFinite(earliestMs) ? earliestMs : 0);
  const lists = new Map<string, Posting[]>();
  for (const [place, entry] of inOrder.entries()) {
    catalog.add({ ...entry, ...packedLengths(entry.packed) });
    for (const [term, posting] of packedTerms(entry.packed, place)) {
      const list = lists.get(term);
      if (list === undefined) lists.set(term, [posting]);
      else list.push(posting);
    }
    yield;
  }
  const writer = new BlockWriter();
  for (const term of [...lists.keys()].toSorted(compareWords)) {
    writer.add(term, lists.get(term) ?? []);
    yield;
  }
  return { catalog: catalog.take(), entries: inOrder.length, blocks: writer.end() };
}

/** A stored segment that is merged. */
export interface MergedSegment {
  readonly catalog: Catalog;
  /** The entries that have left, by their places. */
  readonly dead: DeadPlaces;
  /** In the order of their terms. */
  readonly blocks: Iterable<Pick<Block, 'body'>>;
}

/** The catalog of the new segment. */
export interface MergedCatalog {
  readonly catalog: Buffer;
  readonly entries: number;
}

/**
 * Joins segments into one, without the entries that have left or expired. It gives the complete blocks after each term, often
 * none, so that its caller can write them in steps and let other work run.
 */
export function* mergeSegments(
  segments: readonly MergedSegment[],
  nowMs: number,
): Generator<readonly Block[], MergedCatalog> {
  const { catalog, placesOf } = yield* joinedCatalog(segments, nowMs);
  const inputs = segments.map(({ blocks }) => termsOf(blocks));
  const heads = inputs.map((terms) => terms.next().value);
  const writer = new BlockWriter();
  for (let lowest = lowestOf(heads); lowest !== undefined; lowest = lowestOf(heads)) {
    const moved: Posting[] = [];
    for (const [index, terms] of inputs.entries())
      // A list may continue in the next block.
      for (let head = heads[index]; head?.term === lowest; head = heads[index]) {
        move(head.list, placesOf[index] as Int32Array, moved);
        heads[index] = terms.next().value;
      }
    moved.sort((a, b) => a.place - b.place);
    if (moved.length > 0) writer.add(lowest, moved);
    yield writer.takeComplete();
  }
  yield writer.end();
  return { catalog: catalog.take(), entries: catalog.count };
}

function lowestOf(heads: readonly (ListHead | undefined)[]): string | undefined {
  let lowest: string | undefined;
  for (const head of heads)
    if (head !== undefined && (lowest === undefined || compareWords(head.term, lowest) < 0))
      lowest = head.term;
  return lowest;
}

/** The catalog of all entries that stay, and for each segment the new places of its entries; -1 for one that goes. */
function* joinedCatalog(
  segments: readonly MergedSegment[],
  nowMs: number,
): Generator<readonly Block[], { catalog: CatalogWriter; placesOf: Int32Array[] }> {
  let earliestMs = Infinity;
  for (const { catalog } of segments)
    for (const timeMs of catalog.times) if (timeMs < earliestMs) earliestMs = timeMs;
  const joined = new CatalogWriter(Number.isFinite(earliestMs) ? earliestMs : 0);
  const placesOf = segments.map(({ catalog }) => new Int32Array(catalog.count).fill(-1));
  const inputs = segments.map((segment) => stayingIn(segment, nowMs));
  const heads = inputs.map((entries) => entries.next().value);
  for (;;) {
    let lowest = -1;
    for (const [index, head] of heads.entries())
      if (
        head !== undefined &&
        (lowest < 0 || compareNames(head.facts.name, heads[lowest]?.facts.name ?? head.facts.name) < 0)
      )
        lowest = index;
    const head = heads[lowest];
    if (head === undefined) return { catalog: joined, placesOf };
    (placesOf[lowest] as Int32Array)[head.place] = joined.count;
    joined.add(head.facts);
    heads[lowest] = inputs[lowest]?.next().value;
    yield [];
  }
}

function* stayingIn(
  { catalog, dead }: MergedSegment,
  nowMs: number,
): Generator<{ place: number; facts: IndexedFacts }, undefined> {
  for (let place = 0; place < catalog.count; place += 1)
    if (!dead.has(place) && catalog.expiry(place) > nowMs) yield { place, facts: catalog.facts(place) };
}

interface ListHead {
  readonly term: string;
  readonly list: ByteReader;
}

function* termsOf(blocks: MergedSegment['blocks']): Generator<ListHead, undefined> {
  for (const { body } of blocks)
    for (const { term, list } of blockTerms(body)) yield { term: term.toString(), list };
}

function move(list: ByteReader, places: Int32Array, moved: Posting[]): void {
  for (const posting of new ListReader(list).postings()) {
    const place = places[posting.place] ?? -1;
    if (place < 0) continue;
    posting.place = place;
    moved.push(posting);
  }
}

/** The entries of a segment that were deleted or written again: one bit for each place. */
export class DeadPlaces {
  readonly bytes: Buffer;

  /** Bytes may be missing at the end: those entries are alive. */
  constructor(bytes: Buffer) {
    this.bytes = bytes;
  }

  has(place: number): boolean {
    return ((this.bytes[place >> 3] ?? 0) & (1 << (place & 7))) !== 0;
  }

  *places(): Generator<number> {
    for (const [index, byte] of this.bytes.entries())
      for (let bit = 0; byte >> bit !== 0; bit += 1) if ((byte >> bit) & 1) yield index * 8 + bit;
  }

  get count(): number {
    let count = 0;
    for (let byte of this.bytes) for (; byte !== 0; byte &= byte - 1) count += 1;
    return count;
  }

  with(places: Iterable<number>): DeadPlaces {
    const added = [...places];
    const size = Math.max(this.bytes.length, ...added.map((place) => (place >> 3) + 1));
    const bytes = Buffer.alloc(size);
    this.bytes.copy(bytes);
    for (const place of added) bytes[place >> 3] = (bytes[place >> 3] ?? 0) | (1 << (place & 7));
    return new DeadPlaces(bytes);
  }
}
