/**
 * A fingerprint of the words of an entry: equal for the entry of a record and for its postings in a segment. So a
 * segment of any size is compared with its records in memory for two numbers an entry.
 */
import { blockTerms } from '../segments/blocks.js';
import { packedTerms, useOf } from '../segments/packed-terms.js';
import { PostingRows } from '../segments/posting-rows.js';
import type { WaitingEntry } from '../segments/segment.js';
import type { TermUse } from '../words/entry-terms.js';

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
  for (const { term, list } of blockTerms(body)) {
    const hash = hashOfText(term.toString());
    rows.clear();
    rows.addList(list.bytes, list.at, list.end, null);
    for (let row = 0; row < rows.count; row += 1) {
      const place = rows.places[row] as number;
      if (place < 0 || place >= sums.low.length) throw new RangeError(`A posting names the place ${place}.`);
      add(sums, place, hash, rows.useOf(row));
    }
  }
}

/** Whether the words of the entry are the postings at this place. */
export function hasWordsOf(sums: Fingerprints, place: number, { packed }: WaitingEntry): boolean {
  const own = noFingerprints(1);
  for (const [term, use] of packedTerms(packed)) add(own, 0, hashOfText(term), useOf(use));
  return own.low[0] === sums.low[place] && own.high[0] === sums.high[place];
}

function add(
  { low, high }: Fingerprints,
  place: number,
  term: number,
  { title, body, positions }: TermUse,
): void {
  let hash = mixed(mixed(term, title), body);
  for (const position of positions) hash = mixed(hash, position);
  low[place] = (low[place] as number) + hash;
  high[place] = (high[place] as number) + mixed(hash, term);
}

function hashOfText(text: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < text.length; index += 1) hash = mixed(hash, text.charCodeAt(index));
  return hash;
}

function mixed(hash: number, value: number): number {
  const next = Math.imul(hash ^ value, 0x9e3779b1);
  return (next ^ (next >>> 15)) >>> 0;
}
