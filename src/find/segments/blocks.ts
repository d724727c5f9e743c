/**
 * Blocks: the terms of a segment with their lists of postings, in the order of the terms. A block is full when the next
 * posting does not fit, so a list may begin in one block and continue in the next ones.
 */
import { ByteReader, ByteWriter, sharedBytes } from './bytes.js';
import type { Posting } from './postings.js';

/** A row of the index. */
export interface Block {
  /** The first term of the block. */
  readonly first: string;
  /** The place of its first posting: tells the blocks apart that begin with the same term. */
  readonly from: number;
  readonly body: Buffer;
}

/**
 * The most bytes of a block. LMDB then stores it in one page of 4,096 bytes with a header of 16, and PostgreSQL two rows
 * with their headers in one page of 8,192.
 */
export const blockBytesMax = 3_900;
/** Room that the end of a list needs beyond its sections. */
const listEndBytes = 8;
/** One of so many terms is stored whole; the others share the beginning of the term before. */
const termsPerRestart = 16;
const offsetBytes = 2;

/**
 * Terms with their lists, then the offsets of the whole terms, then their number. A term is the number of bytes that
 * it shares with the term before, and the other bytes.
 */
export class BlockWriter {
  readonly #writer = new ByteWriter();
  readonly #places = new ByteWriter();
  readonly #positions = new ByteWriter();
  readonly #blocks: Block[] = [];
  #restarts: number[] = [];
  #terms = 0;
  #before: Buffer = Buffer.alloc(0);
  #first: { readonly term: string; readonly from: number } | undefined;

  /** Terms are given in their order, and postings in ascending order of their places. */
  add(term: string, postings: readonly Posting[]): void {
    const bytes = Buffer.from(term);
    let room = this.#room(bytes);
    let place = 0;
    for (const posting of postings) {
      const { shape, bytes: from, countsFrom, countsTo, positionsFrom, positionsTo } = posting;
      const size = countsTo - countsFrom + positionsTo - positionsFrom + listEndBytes;
      const used = this.#places.length + this.#positions.length;
      if (used + size > room && (used > 0 || this.#first !== undefined)) {
        if (used > 0) this.#endList(bytes);
        this.#endBlock();
        room = this.#room(bytes);
        place = 0;
      }
      this.#first ??= { term, from: posting.place };
      this.#places.number((posting.place - place) * 4 + shape);
      this.#places.bytes(from, countsFrom, countsTo);
      this.#positions.bytes(from, positionsFrom, positionsTo);
      place = posting.place;
    }
    if (this.#places.length > 0) this.#endList(bytes);
  }

  /** The blocks that are complete, and that were not taken before. */
  takeComplete(): Block[] {
    return this.#blocks.splice(0);
  }

  /** All remaining blocks. */
  end(): Block[] {
    this.#endBlock();
    return this.takeComplete();
  }

  /** Bytes that the sections of the next list may have. */
  #room(term: Buffer): number {
    const restarts = (this.#restarts.length + 2) * offsetBytes;
    return blockBytesMax - this.#writer.length - term.length - listEndBytes - restarts;
  }

  #endList(term: Buffer): void {
    const isWhole = this.#terms % termsPerRestart === 0;
    const shared = isWhole ? 0 : sharedBytes(this.#before, term);
    if (isWhole) this.#restarts.push(this.#writer.length);
    this.#writer.number(shared);
    this.#writer.number(term.length - shared);
    this.#writer.bytes(term, shared);
    const [places, positions] = [this.#places.take(), this.#positions.take()];
    const placesBytes = sizeOfNumber(places.length);
    this.#writer.number(placesBytes + places.length + positions.length);
    this.#writer.number(places.length);
    this.#writer.bytes(places);
    this.#writer.bytes(positions);
    this.#before = term;
    this.#terms += 1;
  }

  #endBlock(): void {
    if (this.#first === undefined) return;
    const offsets = Buffer.allocUnsafe((this.#restarts.length + 1) * offsetBytes);
    for (const [index, offset] of [...this.#restarts, this.#restarts.length].entries())
      offsets.writeUInt16LE(offset, index * offsetBytes);
    this.#writer.bytes(offsets);
    const { term, from } = this.#first;
    this.#blocks.push({ first: term, from, body: this.#writer.take() });
    [this.#first, this.#restarts, this.#terms] = [undefined, [], 0];
  }
}

function sizeOfNumber(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : 3;
}

/** The offsets of the whole terms begin here; they are followed by their number. */
function restartsAt(body: Buffer): number {
  const count = body.length < offsetBytes ? 0 : body.readUInt16LE(body.length - offsetBytes);
  const at = body.length - (count + 1) * offsetBytes;
  if (count === 0 || at < 0) throw new RangeError('The row of the index has no table of terms.');
  return at;
}

/** A term of a block, and where its list is in the body. */
export interface BlockTerm {
  readonly term: Buffer;
  readonly list: ByteReader;
}

/** The terms from an offset on. `term` is used again for the next one. */
function* termsFrom(body: Buffer, from: number, to: number): Generator<BlockTerm> {
  const reader = new ByteReader(body, from, to);
  let term = Buffer.allocUnsafe(128);
  while (!reader.isAtEnd) {
    const [shared, size] = [reader.number(), reader.number()];
    const at = reader.at;
    reader.skip(size);
    if (shared + size > term.length) {
      const larger = Buffer.allocUnsafe((shared + size) * 2);
      term.copy(larger);
      term = larger;
    }
    body.copy(term, shared, at, reader.at);
    const listSize = reader.number();
    const list = reader.at;
    reader.skip(listSize);
    yield { term: term.subarray(0, shared + size), list: new ByteReader(body, list, reader.at) };
  }
}

export function blockTerms(body: Buffer): Generator<BlockTerm> {
  return termsFrom(body, 0, restartsAt(body));
}

/** Where the whole term at an offset is, and how it compares with another one. */
function compareWhole(body: Buffer, offset: number, term: Buffer): number {
  const reader = new ByteReader(body, offset);
  reader.number();
  const size = reader.number();
  const at = reader.at;
  reader.skip(size);
  return body.compare(term, 0, term.length, at, reader.at);
}

/** Negative, 0 or positive as the first term of the block comes before, is, or comes after the term. */
export function compareFirst(body: Buffer, term: Buffer): number {
  return compareWhole(body, 0, term);
}

/** The list of a term, or a part of it; undefined if the block does not have the term. */
export function listIn(body: Buffer, term: Buffer): ByteReader | undefined {
  const end = restartsAt(body);
  let [low, high] = [0, (body.length - end) / offsetBytes - 2];
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if (compareWhole(body, body.readUInt16LE(end + middle * offsetBytes), term) <= 0) low = middle;
    else high = middle - 1;
  }
  for (const found of termsFrom(body, body.readUInt16LE(end + low * offsetBytes), end)) {
    const order = found.term.compare(term);
    if (order === 0) return found.list;
    if (order > 0) return undefined;
  }
  return undefined;
}
