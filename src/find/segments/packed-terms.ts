/** The terms of one entry as bytes: what a write stores, until they are filed into a segment. */
import type { EntryTerms, TermUse } from '../words/entry-terms.js';
import { ByteReader, ByteWriter } from './bytes.js';
import { readUse, skipUse, writeUse } from './postings.js';

/** Where one term is in the packed bytes. */
export interface PackedTerm {
  readonly term: string;
  readonly hasCounts: boolean;
  /** The bytes of its use. */
  readonly from: number;
  readonly to: number;
}

export function packTerms({ titleLength, bodyLength, terms }: EntryTerms): Buffer {
  const writer = new ByteWriter();
  writer.number(titleLength);
  writer.number(bodyLength);
  for (const [term, use] of terms) {
    // The size of the term and the flag of its use are one number.
    writeUse(writer, Buffer.byteLength(term), use);
    writer.utf8(term);
  }
  return writer.take();
}

export function packedLengths(packed: Buffer): { titleLength: number; bodyLength: number } {
  const reader = new ByteReader(packed);
  return { titleLength: reader.number(), bodyLength: reader.number() };
}

/** The terms of a packed entry, in the order of its text. */
export function* packedTerms(packed: Buffer): Generator<PackedTerm> {
  const reader = new ByteReader(packed);
  reader.number();
  reader.number();
  while (!reader.isAtEnd) {
    const code = reader.number();
    const hasCounts = code % 2 === 1;
    const from = reader.at;
    skipUse(reader, hasCounts);
    const to = reader.at;
    reader.skip(Math.floor(code / 2));
    yield { term: packed.toString('utf8', to, reader.at), hasCounts, from, to };
  }
}

export function unpackTerms(packed: Buffer): EntryTerms {
  const terms = new Map<string, TermUse>();
  for (const { term, hasCounts, from } of packedTerms(packed))
    terms.set(term, readUse(new ByteReader(packed, from), hasCounts));
  return { ...packedLengths(packed), terms };
}
