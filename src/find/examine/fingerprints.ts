/**
 * A fingerprint of the words of an entry: equal for the entry of a record and for its postings in a segment.
 * So a segment of any size is compared with its records in memory for two numbers an entry.
 */
import { TermCursor } from '../segments/blocks.js';
import { ByteReader } from '../segments/bytes.js';
import { skipCounts } from '../segments/postings.js';
import { PostingRows } from '../segments/posting-rows.js';
import type { WaitingEntry } from '../segments/segment.js';

/** Sums over all terms, so that their order does not matter. */
export interface Fingerprints {
  readonly low: Uint32Array;
  readonly high: Uint32Array;
}

export function noFingerprints(entries: number): Fingerprints {
  return { low: new Uint32Array(entries), high: new Uint32Array(entries) };
}

/** Adds the postings of a block. Throws a `RangeError` for a block that cannot be read. */
export function addBlock(sums: Fingerprints, body: Buffer): void {
  const rows = new PostingRows();
  const cursor = new TermCursor();
  cursor.open(body);
  while (cursor.next()) {
    const term = withBytes(textSeed, cursor.term, 0, cursor.length);
    rows.clear();
    rows.addList(body, cursor.listFrom, cursor.listTo, null);
    for (let row = 0; row < rows.count; row += 1) {
      const place = rows.places[row] as number;
      if (place < 0 || place >= sums.low.length) throw new RangeError(`A posting names the place ${place}.`);
      let hash = mixed(term, rows.shapes[row] as number);
      hash = withBytes(hash, body, rows.countsFrom[row] as number, rows.countsTo[row] as number);
      hash = withBytes(hash, body, rows.positionsFrom[row] as number, rows.positionsTo[row] as number);
      add(sums, place, term, hash);
    }
  }
}

/**
 * Whether the words of the entry are the postings at this place. A segment has the bytes of a packed entry,
 * term by term, so nothing is decoded.
 */
export function hasWordsOf(sums: Fingerprints, place: number, { packed }: WaitingEntry): boolean {
  const own = noFingerprints(1);
  const reader = new ByteReader(packed);
  reader.skipNumbers(2);
  while (!reader.isAtEnd) {
    const code = reader.number();
    const from = reader.at;
    reader.skipNumbers(skipCounts(reader, code & 3));
    const to = reader.at;
    reader.skip(code >>> 2);
    const term = withBytes(textSeed, packed, to, reader.at);
    add(own, 0, term, withBytes(mixed(term, code & 3), packed, from, to));
  }
  return own.low[0] === sums.low[place] && own.high[0] === sums.high[place];
}

function add({ low, high }: Fingerprints, place: number, term: number, hash: number): void {
  low[place] = (low[place] as number) + hash;
  high[place] = (high[place] as number) + mixed(hash, term);
}

const textSeed = 0x811c9dc5;

function withBytes(seed: number, bytes: Buffer, from: number, to: number): number {
  let hash = seed;
  for (let at = from; at < to; at += 1) hash = mixed(hash, bytes[at] as number);
  return hash;
}

function mixed(hash: number, value: number): number {
  const next = Math.imul(hash ^ value, 0x9e3779b1);
  return (next ^ (next >>> 15)) >>> 0;
}
