/** The terms of one entry as bytes: what a home keeps of a written thing until it is filed into a segment. */
import type { EntryTerms } from '../words/entry-terms.js';
import { ByteReader, ByteWriter, utf8Size } from './bytes.js';
import { shapeOf, skipCounts, writeCounts, writePositions } from './postings.js';
import type { PostingRows } from './posting-rows.js';

export function packTerms({ titleLength, bodyLength, terms }: EntryTerms): Buffer {
  const writer = new ByteWriter();
  writer.number(titleLength);
  writer.number(bodyLength);
  for (const [term, use] of terms) {
    const shape = shapeOf(use);
    writer.number(utf8Size(term) * 4 + shape);
    writeCounts(writer, shape, use);
    writePositions(writer, use.positions);
    writer.utf8(term);
  }
  return writer.take();
}

export function packedLengths(packed: Buffer): { titleLength: number; bodyLength: number } {
  const reader = new ByteReader(packed);
  return { titleLength: reader.number(), bodyLength: reader.number() };
}

/** The use of a term with its bytes, as they were written. */
export interface PackedUse {
  readonly shape: number;
  readonly bytes: Buffer;
  readonly countsFrom: number;
  readonly positionsFrom: number;
  readonly positionsTo: number;
}

/** The terms of a packed entry, in the order of its text. */
export function* packedTerms(packed: Buffer): Generator<[term: string, use: PackedUse]> {
  const reader = new ByteReader(packed);
  reader.number();
  reader.number();
  while (!reader.isAtEnd) {
    const code = reader.number();
    const shape = code & 3;
    const countsFrom = reader.at;
    const count = skipCounts(reader, shape);
    const positionsFrom = reader.at;
    reader.skipNumbers(count);
    const positionsTo = reader.at;
    reader.skip(code >>> 2);
    const term = packed.toString('utf8', positionsTo, reader.at);
    yield [term, { shape, bytes: packed, countsFrom, positionsFrom, positionsTo }];
  }
}

/** Adds the terms of a packed entry as postings at a place. `onTerm` is called for each of them. */
export function addPacked(
  rows: PostingRows,
  packed: Buffer,
  place: number,
  onTerm: (term: string) => void,
): void {
  const reader = new ByteReader(packed);
  reader.skipNumbers(2);
  rows.addSource(packed);
  while (!reader.isAtEnd) {
    const code = reader.number();
    const countsFrom = reader.at;
    const count = skipCounts(reader, code & 3);
    const positionsFrom = reader.at;
    reader.skipNumbers(count);
    const positionsTo = reader.at;
    reader.skip(code >>> 2);
    rows.add(place, code & 3, countsFrom, positionsFrom, positionsFrom, positionsTo);
    onTerm(packed.toString('utf8', positionsTo, reader.at));
  }
}
