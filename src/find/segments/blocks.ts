/**
 * Blocks: the terms of a segment with their lists of postings, in the order of the terms. A block is full
 * when the next posting does not fit, so a list may begin in one block and continue in the next ones.
 */
import { ByteReader, ByteWriter } from './bytes.js';
import type { PostingRows } from './posting-rows.js';

/** A row of the index. */
export interface Block {
  /** The first term of the block. */
  readonly first: string;
  /** The place of its first posting: tells the blocks apart that begin with the same term. */
  readonly from: number;
  readonly body: Buffer;
}

/**
 * The most bytes of a block. LMDB then stores it in one page of 4,096 bytes with a header of 16, and
 * PostgreSQL two rows with their headers in one page of 8,192.
 */
export const blockBytesMax = 3_900;
/** Room that the end of a list needs beyond its sections. */
const listEndBytes = 8;
/** One of so many terms is stored whole; the others share the beginning of the term before. */
const termsPerRestart = 16;
const offsetBytes = 2;

/** The postings of a term: those of `order` from `from` up to, and without, `to`. */
export interface Postings {
  readonly rows: PostingRows;
  /** The rows of the postings, in ascending order of their places. */
  readonly order: Int32Array;
  readonly from: number;
  readonly to: number;
}

/**
 * Terms with their lists, then the offsets of the whole terms, then their number. A term is the number of
 * bytes that it shares with the term before, and the other bytes.
 */
export class BlockWriter {
  readonly #writer = new ByteWriter();
  readonly #places = new ByteWriter();
  readonly #positions = new ByteWriter();
  readonly #blocks: Block[] = [];
  #restarts: number[] = [];
  #terms = 0;
  /** The term before, in the first bytes. */
  #before: Buffer = Buffer.allocUnsafe(128);
  #beforeLength = 0;
  #first: { readonly term: string; readonly from: number } | undefined;

  /** Terms are given in their order. The term is in the bytes from `start` up to, and without, `end`. */
  add(bytes: Buffer, start: number, end: number, { rows, order, from, to }: Postings): void {
    const length = end - start;
    const { places, shapes, countsFrom, countsTo, positionsFrom, positionsTo } = rows;
    let room = this.#room(length);
    let before = 0;
    for (let at = from; at < to; at += 1) {
      const row = order[at] as number;
      const place = places[row] as number;
      const [fromCounts, toCounts] = [countsFrom[row] as number, countsTo[row] as number];
      const [fromPositions, toPositions] = [positionsFrom[row] as number, positionsTo[row] as number];
      const size = toCounts - fromCounts + toPositions - fromPositions + listEndBytes;
      const used = this.#places.length + this.#positions.length;
      if (used + size > room && (used > 0 || this.#first !== undefined)) {
        if (used > 0) this.#endList(bytes, start, length);
        this.#endBlock();
        room = this.#room(length);
        before = 0;
      }
      this.#first ??= { term: bytes.toString('utf8', start, end), from: place };
      this.#places.number((place - before) * 4 + (shapes[row] as number));
      const source = rows.sourceOf(row);
      this.#places.bytes(source, fromCounts, toCounts);
      this.#positions.bytes(source, fromPositions, toPositions);
      before = place;
    }
    if (this.#places.length > 0) this.#endList(bytes, start, length);
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
  #room(termLength: number): number {
    const restarts = (this.#restarts.length + 2) * offsetBytes;
    return blockBytesMax - this.#writer.length - termLength - listEndBytes - restarts;
  }

  #endList(bytes: Buffer, start: number, length: number): void {
    const isWhole = this.#terms % termsPerRestart === 0;
    const shared = isWhole ? 0 : this.#shared(bytes, start, length);
    if (isWhole) this.#restarts.push(this.#writer.length);
    this.#writer.number(shared);
    this.#writer.number(length - shared);
    this.#writer.bytes(bytes, start + shared, start + length);
    const [placesBytes, positionsBytes] = [this.#places.length, this.#positions.length];
    this.#writer.number(sizeOfNumber(placesBytes) + placesBytes + positionsBytes);
    this.#writer.number(placesBytes);
    this.#writer.move(this.#places);
    this.#writer.move(this.#positions);
    if (length > this.#before.length) this.#before = Buffer.allocUnsafe(length * 2);
    for (let at = isWhole ? 0 : shared; at < length; at += 1) this.#before[at] = bytes[start + at] as number;
    this.#beforeLength = length;
    this.#terms += 1;
  }

  /** How many first bytes the term has in common with the one before. */
  #shared(bytes: Buffer, start: number, length: number): number {
    const before = this.#before;
    const most = Math.min(this.#beforeLength, length);
    let shared = 0;
    while (shared < most && before[shared] === bytes[start + shared]) shared += 1;
    return shared;
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

/** Reads the terms of a block one after the other, in the same memory. */
export class TermCursor {
  /** The first `length` bytes are the present term. */
  term: Buffer = Buffer.allocUnsafe(128);
  length = 0;
  body: Buffer = Buffer.alloc(0);
  /** Where the list of the term is in the body. */
  listFrom = 0;
  listTo = 0;
  #reader = new ByteReader(this.body);

  /** Before the first term of a block, or before the whole term at an offset. */
  open(body: Buffer, from = 0): void {
    this.body = body;
    this.length = 0;
    this.#reader = new ByteReader(body, from, restartsAt(body));
  }

  /** To the next term. False at the end of the block. */
  next(): boolean {
    const reader = this.#reader;
    if (reader.isAtEnd) return false;
    const [shared, size] = [reader.number(), reader.number()];
    if (shared > this.length)
      throw new RangeError('The row of the index shares more of a term than there is.');
    const at = reader.at;
    reader.skip(size);
    if (shared + size > this.term.length) {
      const larger = Buffer.allocUnsafe((shared + size) * 2);
      this.term.copy(larger);
      this.term = larger;
    }
    for (let index = 0; index < size; index += 1) this.term[shared + index] = this.body[at + index] as number;
    this.length = shared + size;
    const listSize = reader.number();
    this.listFrom = reader.at;
    reader.skip(listSize);
    this.listTo = reader.at;
    return true;
  }

  /** Negative, 0 or positive as the present term comes before, is, or comes after another one. */
  compare(term: Buffer, length: number): number {
    const shorter = Math.min(this.length, length);
    for (let at = 0; at < shorter; at += 1) {
      const difference = (this.term[at] as number) - (term[at] as number);
      if (difference !== 0) return difference;
    }
    return this.length - length;
  }
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
  const cursor = new TermCursor();
  cursor.open(body, body.readUInt16LE(end + low * offsetBytes));
  while (cursor.next()) {
    const order = cursor.compare(term, term.length);
    if (order === 0) return new ByteReader(body, cursor.listFrom, cursor.listTo);
    if (order > 0) return undefined;
  }
  return undefined;
}
