/** Makes segments: from the entries that waited, or from several older segments. */
import type { EntryFacts } from '../model.js';
import { compareNames } from '../ranking/order.js';
import { type Block, type BlockTerm, BlockWriter, blockTerms } from './blocks.js';
import { ByteReader } from './bytes.js';
import { Catalog, type IndexedFacts, writeCatalog } from './catalog.js';
import { packedLengths, packedTerms } from './packed-terms.js';
import { PostingWriter, visitPostings } from './postings.js';
import { compareWords } from './word-order.js';

/** An entry that is not in a segment yet, with its packed terms. */
export interface WaitingEntry extends EntryFacts {
  readonly packed: Buffer;
}

/** The rows of a new segment. */
export interface NewSegment {
  readonly catalog: Buffer;
  /** The number of entries. */
  readonly entries: number;
  /** In the order of their terms. */
  readonly blocks: readonly Block[];
}

/** The entries of a segment and their order; every name is given once. */
export function fileEntries(entries: readonly WaitingEntry[]): NewSegment {
  const inOrder = entries.toSorted((a, b) => compareNames(a.name, b.name));
  const lists = new Map<string, PostingWriter>();
  for (const [place, { packed }] of inOrder.entries())
    for (const { term, hasCounts, from, to } of packedTerms(packed)) {
      let list = lists.get(term);
      if (list === undefined) {
        list = new PostingWriter();
        lists.set(term, list);
      }
      list.add(place, hasCounts, packed, from, to);
    }
  const writer = new BlockWriter();
  for (const term of [...lists.keys()].toSorted(compareWords))
    writer.add(term, (lists.get(term) as PostingWriter).take());
  const facts = inOrder.map((entry) => ({ ...entry, ...packedLengths(entry.packed) }));
  return { catalog: writeCatalog(facts), entries: inOrder.length, blocks: writer.end() };
}

/** A stored segment that is merged. */
export interface MergedSegment {
  readonly catalog: Catalog;
  /** The entries that have left, by their places. */
  readonly dead: DeadPlaces;
  /** In the order of their terms. */
  readonly blocks: Iterable<Pick<Block, 'body'>>;
}

/** A posting of a merged list: its new place, and where its use is. */
interface MovedPosting {
  readonly place: number;
  readonly hasCounts: boolean;
  readonly body: Buffer;
  readonly from: number;
  readonly to: number;
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
  const { facts, placesOf } = joinedCatalog(segments, nowMs);
  const inputs = segments.map(({ blocks }) => termsOf(blocks));
  const heads = inputs.map((terms) => terms.next().value);
  const list = new PostingWriter();
  const writer = new BlockWriter();
  for (let lowest = lowestOf(heads); lowest !== undefined; lowest = lowestOf(heads)) {
    const moved: MovedPosting[] = [];
    for (const [index, terms] of inputs.entries())
      // A long list has several parts.
      for (let head = heads[index]; head?.term === lowest; head = heads[index]) {
        move(head, placesOf[index] as Int32Array, moved);
        heads[index] = terms.next().value;
      }
    moved.sort((a, b) => a.place - b.place);
    for (const { place, hasCounts, body, from, to } of moved) list.add(place, hasCounts, body, from, to);
    if (moved.length > 0) writer.add(lowest, list.take());
    yield writer.takeComplete();
  }
  yield writer.end();
  return { catalog: writeCatalog(facts), entries: facts.length };
}

function lowestOf(heads: readonly (ListHead | undefined)[]): string | undefined {
  let lowest: string | undefined;
  for (const head of heads)
    if (head !== undefined && (lowest === undefined || compareWords(head.term, lowest) < 0))
      lowest = head.term;
  return lowest;
}

/** The facts of all entries that stay, and for each segment the new places of its entries; -1 for one that goes. */
function joinedCatalog(
  segments: readonly MergedSegment[],
  nowMs: number,
): { facts: IndexedFacts[]; placesOf: Int32Array[] } {
  const kept = segments.flatMap(({ catalog, dead }, segment) =>
    Array.from({ length: catalog.count }, (_, place) => place)
      .filter((place) => !dead.has(place) && (catalog.expiries[place] ?? 0) > nowMs)
      .map((place) => ({ segment, place, facts: catalog.facts(place) })),
  );
  kept.sort((a, b) => compareNames(a.facts.name, b.facts.name));
  const placesOf = segments.map(({ catalog }) => new Int32Array(catalog.count).fill(-1));
  for (const [newPlace, { segment, place }] of kept.entries())
    (placesOf[segment] as Int32Array)[place] = newPlace;
  return { facts: kept.map(({ facts }) => facts), placesOf };
}

interface ListHead extends BlockTerm {
  readonly body: Buffer;
}

function* termsOf(blocks: MergedSegment['blocks']): Generator<ListHead, undefined> {
  for (const { body } of blocks) for (const term of blockTerms(body)) yield { ...term, body };
}

function move({ body, from, to }: ListHead, places: Int32Array, moved: MovedPosting[]): void {
  const reader = new ByteReader(body, from, to);
  visitPostings(reader, (place, hasCounts, at) => {
    const newPlace = places[place] ?? -1;
    if (newPlace >= 0) moved.push({ place: newPlace, hasCounts, body, from: at, to: reader.at });
  });
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
