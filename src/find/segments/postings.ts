/**
 * Postings: which entries have a term, how often and where. A list holds one posting for each entry, in ascending
 * order of the entry's place in its segment: the distance to the previous place, then the use of the term.
 */
import type { TermUse } from '../words/entry-terms.js';
import { listBytesMax } from './blocks.js';
import { type ByteReader, ByteWriter } from './bytes.js';

/** Most terms stand once, in the body: then only the position is written. */
function isPlain({ title, body, positions }: TermUse): boolean {
  return title === 0 && body === 1 && positions.length === 1;
}

/** The bytes of a use after its flag. */
function writeCounts(writer: ByteWriter, { title, body, positions }: TermUse): void {
  writer.number(title);
  writer.number(body);
  writer.number(positions.length);
}

function writePositions(writer: ByteWriter, positions: readonly number[]): void {
  let before = 0;
  for (const position of positions) {
    writer.number(position - before);
    before = position;
  }
}

/** Writes a use with a number in front, whose lowest bit says whether counts follow. */
export function writeUse(writer: ByteWriter, number: number, use: TermUse): void {
  if (isPlain(use)) writer.number(number * 2);
  else {
    writer.number(number * 2 + 1);
    writeCounts(writer, use);
  }
  writePositions(writer, use.positions);
}

/** Reads a use after the number in front of it. */
export function readUse(reader: ByteReader, hasCounts: boolean): TermUse {
  const title = hasCounts ? reader.number() : 0;
  const body = hasCounts ? reader.number() : 1;
  const count = hasCounts ? reader.number() : 1;
  const positions: number[] = [];
  let position = 0;
  for (let index = 0; index < count; index += 1) {
    position += reader.number();
    positions.push(position);
  }
  return { title, body, positions };
}

export function skipUse(reader: ByteReader, hasCounts: boolean): void {
  let count = 1;
  if (hasCounts) {
    reader.number();
    reader.number();
    count = reader.number();
  }
  for (let index = 0; index < count; index += 1) reader.number();
}

/** A list, or a part of a long one: it begins with the place of its first entry. */
export interface ListPart {
  readonly from: number;
  readonly bytes: Buffer;
}

/** Makes a list from uses given in ascending order of their places. */
export class PostingWriter {
  readonly #writer = new ByteWriter();
  readonly #parts: ListPart[] = [];
  #from = 0;
  #before = 0;

  /** The use is copied as it was written: from `from` to `to` in `bytes`. */
  add(place: number, hasCounts: boolean, bytes: Uint8Array, from: number, to: number): void {
    if (this.#writer.length === 0) this.#from = place;
    this.#writer.number((place - this.#before) * 2 + (hasCounts ? 1 : 0));
    this.#writer.bytes(bytes, from, to);
    this.#before = place;
    if (this.#writer.length >= listBytesMax) this.#endPart();
  }

  take(): ListPart[] {
    this.#endPart();
    return this.#parts.splice(0);
  }

  #endPart(): void {
    if (this.#writer.length > 0) this.#parts.push({ from: this.#from, bytes: this.#writer.take() });
    this.#before = 0;
  }
}

/** Visits the postings of a list. `at` is where the use begins; during the visit the reader stands behind it. */
export function visitPostings(
  reader: ByteReader,
  visit: (place: number, hasCounts: boolean, at: number) => void,
): void {
  let place = 0;
  while (!reader.isAtEnd) {
    const code = reader.number();
    place += Math.floor(code / 2);
    const hasCounts = code % 2 === 1;
    const at = reader.at;
    skipUse(reader, hasCounts);
    visit(place, hasCounts, at);
  }
}
