/** The terms of one entry as bytes: what a home keeps of a written thing until it is filed into a segment. */
import type { EntryTerms, TermUse } from '../words/entry-terms.js';
import { ByteReader, ByteWriter } from './bytes.js';
import {
  type Counts,
  type Posting,
  readCounts,
  readPositions,
  shapeOf,
  writeCounts,
  writePositions,
} from './postings.js';

export function packTerms({ titleLength, bodyLength, terms }: EntryTerms): Buffer {
  const writer = new ByteWriter();
  writer.number(titleLength);
  writer.number(bodyLength);
  for (const [term, use] of terms) {
    const shape = shapeOf(use);
    writer.number(Buffer.byteLength(term) * 4 + shape);
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

/** The terms of a packed entry, in the order of its text, as postings at a place. */
export function* packedTerms(packed: Buffer, place: number): Generator<[term: string, posting: Posting]> {
  const reader = new ByteReader(packed);
  reader.number();
  reader.number();
  const counts: Counts = { title: 0, body: 0, positions: 0 };
  while (!reader.isAtEnd) {
    const code = reader.number();
    const shape = code % 4;
    const countsFrom = reader.at;
    readCounts(reader, shape, counts);
    const countsTo = reader.at;
    reader.skipNumbers(counts.positions);
    const positionsTo = reader.at;
    reader.skip(Math.floor(code / 4));
    const term = packed.toString('utf8', positionsTo, reader.at);
    yield [term, { place, shape, bytes: packed, countsFrom, countsTo, positionsFrom: countsTo, positionsTo }];
  }
}

export function unpackTerms(packed: Buffer): EntryTerms {
  const terms = new Map<string, TermUse>();
  for (const [term, posting] of packedTerms(packed, 0)) terms.set(term, useOf(posting));
  return { ...packedLengths(packed), terms };
}

/** The use of a term in a packed entry. */
export function useOf({ bytes, shape, countsFrom, positionsFrom }: Posting): TermUse {
  const counts: Counts = { title: 0, body: 0, positions: 0 };
  readCounts(new ByteReader(bytes, countsFrom), shape, counts);
  const positions = readPositions(new ByteReader(bytes, positionsFrom), counts.positions);
  return { title: counts.title, body: counts.body, positions };
}
