/** The terms of one entry as bytes: what a home keeps of a written thing until it is filed into a segment. */
import type { EntryText } from '../model.js';
import { EntryTerms } from '../words/entry-terms.js';
import { missingWords } from '../words/message-words.js';
import { ByteReader, ByteWriter } from './bytes.js';
import { shapeOf, skipCounts, writeCounts } from './postings.js';
import type { PostingRows } from './posting-rows.js';

/** Reused: packing never waits. */
const writer = new ByteWriter();
const terms = new EntryTerms();

/** The terms of a text. */
export function packText(text: EntryText): Buffer {
  terms.read(text);
  return packed();
}

/** The terms of a message, with those that only AICQ's search looks for. */
export function packMessage(text: EntryText): Buffer {
  terms.read(text);
  for (const body of text.body) for (const term of missingWords(body, terms.table)) terms.addFirst(term);
  return packed();
}

function packed(): Buffer {
  const { table, titles, bodies, placeCounts, firstPlaces, places, nextPlaces } = terms;
  writer.number(terms.titleLength);
  writer.number(terms.bodyLength);
  for (let term = 0; term < table.count; term += 1) {
    const [from, to] = [table.starts[term] as number, table.starts[term + 1] as number];
    const [title, body] = [titles[term] as number, bodies[term] as number];
    const count = placeCounts[term] as number;
    const shape = shapeOf(title, body, count);
    writer.number((to - from) * 4 + shape);
    writeCounts(writer, shape, title, body, count);
    let before = 0;
    for (let left = count, place = firstPlaces[term] as number; left > 0; left -= 1) {
      const position = places[place] as number;
      writer.number(position - before);
      before = position;
      place = nextPlaces[place] as number;
    }
    writer.bytes(table.bytes, from, to);
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

/** Adds the terms of a packed entry as postings at a place. `onTerm` is called with the bytes of each of them. */
export function addPacked(
  rows: PostingRows,
  packed: Buffer,
  place: number,
  onTerm: (from: number, to: number) => void,
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
    onTerm(positionsTo, reader.at);
  }
}
