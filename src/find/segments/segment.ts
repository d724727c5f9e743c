/** Makes segments of the entries that waited. */
import type { EntryFacts } from '../model.js';
import { compareNames } from '../ranking/order.js';
import { type Block, BlockWriter } from './blocks.js';
import { CatalogWriter } from './catalog.js';
import { addPacked, packedLengths } from './packed-terms.js';
import { PostingRows, larger } from './posting-rows.js';
import { TermTable } from '../words/term-table.js';
import { inTermOrder } from './word-order.js';

/** An entry that is not in a segment yet, with its packed terms. */
export interface WaitingEntry extends EntryFacts {
  readonly packed: Buffer;
}

/** Bytes of packed words after which a new segment is full. Filing holds them all in memory, as lists of places. */
export const packedBytesMax = 1024 * 1024;

/** The rows of a new segment. */
export interface NewSegment {
  readonly catalog: Buffer;
  readonly facts: Buffer;
  /** The number of entries. */
  readonly entries: number;
  /** In the order of their terms. */
  readonly blocks: readonly Block[];
}

/** Makes a segment of entries, each with another name. It lets other work run between steps. */
export function* fileEntries(entries: readonly WaitingEntry[]): Generator<void, NewSegment> {
  const inOrder = entries.toSorted((a, b) => compareNames(a.name, b.name));
  const catalog = new CatalogWriter();
  const postings = new PostingRows();
  const terms = new TermTable();
  /** For each posting the number of its term. */
  let termOf = new Int32Array(1_024);
  for (const [place, entry] of inOrder.entries()) {
    const { name, packed } = entry;
    catalog.add({ ...entry, ...name, id: Buffer.from(name.id), ...packedLengths(packed) });
    addPacked(postings, packed, place, (from, to) => {
      if (postings.count > termOf.length) termOf = larger(termOf, termOf.length * 2);
      termOf[postings.count - 1] = terms.numberOf(packed, from, to);
    });
    yield;
  }
  const { firsts, rows } = grouped(termOf.subarray(0, postings.count), terms.count);
  yield;
  const writer = new BlockWriter();
  const { bytes, starts } = terms;
  for (const term of yield* inTermOrder(terms)) {
    const [from, to] = [firsts[term] as number, firsts[term + 1] as number];
    writer.add(bytes, starts[term] as number, starts[term + 1] as number, {
      rows: postings,
      order: rows,
      from,
      to,
    });
    yield;
  }
  return { ...catalog.take(), entries: inOrder.length, blocks: writer.end() };
}

/** The postings of each term, in their order: those of term n are in `rows` from `firsts[n]` to `firsts[n + 1]`. */
function grouped(termOf: Int32Array, terms: number): { firsts: Int32Array; rows: Int32Array } {
  const firsts = new Int32Array(terms + 1);
  for (const term of termOf) firsts[term + 1] = (firsts[term + 1] as number) + 1;
  for (let term = 0; term < terms; term += 1)
    firsts[term + 1] = (firsts[term + 1] as number) + (firsts[term] as number);
  const next = firsts.slice();
  const rows = new Int32Array(termOf.length);
  for (let row = 0; row < termOf.length; row += 1) {
    const term = termOf[row] as number;
    rows[next[term] as number] = row;
    next[term] = (next[term] as number) + 1;
  }
  return { firsts, rows };
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
