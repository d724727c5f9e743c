/**
 * Postings: which entries have a term, how often and where. A list has one posting for each entry, in
 * ascending order of the entry's place in its segment. Its bytes are in two sections: first the places with
 * their counts, which every search reads, then the positions, which a search reads only of entries that may
 * be among the best.
 */
import { positionsPerTermMax } from '../words/entry-terms.js';
import { ByteReader, type ByteWriter } from './bytes.js';

/** The shapes of a use, in two bits beside the distance of the place. Most terms stand once, in the body. */
const useShapes = { bodyOnce: 0, titleOnce: 1, body: 2, any: 3 } as const;

/** Of a term that stands so often in the title and in the body, and so many of whose places are stored. */
export function shapeOf(title: number, body: number, positions: number): number {
  const known = Math.min(title + body, positionsPerTermMax);
  if (positions !== known || (title > 0 && title + body > 1)) return useShapes.any;
  if (title === 1) return useShapes.titleOnce;
  return body === 1 ? useShapes.bodyOnce : useShapes.body;
}

export function writeCounts(
  writer: ByteWriter,
  shape: number,
  title: number,
  body: number,
  positions: number,
): void {
  if (shape === useShapes.body) writer.number(body);
  if (shape !== useShapes.any) return;
  writer.number(title);
  writer.number(body);
  writer.number(positions);
}

/** The counts of a use, after its shape: how often the term stands, and how many positions are stored. */
export interface Counts {
  title: number;
  body: number;
  positions: number;
}

export function readCounts(reader: ByteReader, shape: number, counts: Counts): void {
  counts.title = shape === useShapes.titleOnce ? 1 : 0;
  counts.body = shape === useShapes.titleOnce ? 0 : 1;
  counts.positions = 1;
  if (shape === useShapes.body) {
    counts.body = reader.number();
    counts.positions = Math.min(counts.body, positionsPerTermMax);
  } else if (shape === useShapes.any) {
    counts.title = reader.number();
    counts.body = reader.number();
    counts.positions = reader.number();
  }
}

/** Skips the counts of a use. Returns how many positions are stored. */
export function skipCounts(reader: ByteReader, shape: number): number {
  if (shape === useShapes.bodyOnce || shape === useShapes.titleOnce) return 1;
  if (shape === useShapes.body) return Math.min(reader.number(), positionsPerTermMax);
  reader.skipNumbers(2);
  return reader.number();
}

export function readPositions(reader: ByteReader, count: number): number[] {
  const positions: number[] = [];
  let position = 0;
  for (let index = 0; index < count; index += 1) {
    position += reader.number();
    positions.push(position);
  }
  return positions;
}

/** Reads a list: first its size of places, then both sections. */
export class ListReader {
  readonly #places: ByteReader;
  readonly #positions: ByteReader;
  readonly #counts: Counts = { title: 0, body: 0, positions: 0 };

  constructor(list: ByteReader) {
    const size = list.number();
    const from = list.at;
    list.skip(size);
    this.#places = new ByteReader(list.bytes, from, list.at);
    this.#positions = new ByteReader(list.bytes, list.at, list.end);
  }

  /** Adds the postings of seen entries to a list of the search. */
  addTo(list: ListBuilder, base: number, isSeen: Uint8Array): void {
    const [places, counts] = [this.#places, this.#counts];
    list.beginPart(this.#positions);
    let place = 0;
    let before = 0;
    while (!places.isAtEnd) {
      const code = places.number();
      place += code >>> 2;
      readCounts(places, code & 3, counts);
      if (isSeen[place] === 1) list.add(base + place, counts, before);
      before += counts.positions;
    }
  }

  /** The places of all postings. */
  *places(): Generator<number> {
    let place = 0;
    while (!this.#places.isAtEnd) {
      const code = this.#places.number();
      place += code >>> 2;
      readCounts(this.#places, code & 3, this.#counts);
      yield place;
    }
  }

  hasSeen(isSeen: Uint8Array): boolean {
    for (const place of this.places()) if (isSeen[place] === 1) return true;
    return false;
  }
}

/** The entries that have a term, in ascending order of their ordinals. */
export interface TermList {
  readonly ordinals: Int32Array;
  /** How often the entry at the same index has the term. */
  readonly titles: Int32Array;
  readonly bodies: Int32Array;
  /** Where the entry at an index has the term. Cheapest in ascending order of the indexes. */
  positions(index: number): number[];
}

interface Part {
  readonly first: number;
  readonly bytes: Buffer;
  readonly from: number;
  readonly to: number;
}

/** Collects the postings of one term over the parts of its list, in all segments. */
export class ListBuilder {
  #ordinals = new Int32Array(64);
  #titles = new Int32Array(64);
  #bodies = new Int32Array(64);
  /** Positions of the same part before those of the posting, and how many it has. */
  #before = new Int32Array(64);
  #counts = new Int32Array(64);
  #size = 0;
  readonly #parts: Part[] = [];

  beginPart({ bytes, at, end }: Pick<ByteReader, 'bytes' | 'at' | 'end'>): void {
    if (this.#parts.at(-1)?.first === this.#size) this.#parts.pop();
    this.#parts.push({ first: this.#size, bytes, from: at, to: end });
  }

  add(ordinal: number, { title, body, positions }: Counts, before: number): void {
    const at = this.#size;
    if (at === this.#ordinals.length) this.#grow();
    this.#ordinals[at] = ordinal;
    this.#titles[at] = title;
    this.#bodies[at] = body;
    this.#before[at] = before;
    this.#counts[at] = positions;
    this.#size = at + 1;
  }

  list(): TermList {
    const [before, counts, parts] = [this.#before, this.#counts, this.#parts];
    // Where the last read ended: the next one mostly begins a little later.
    let [part, passed, reader] = [-1, 0, new ByteReader(Buffer.alloc(0))];
    return {
      ordinals: this.#ordinals.subarray(0, this.#size),
      titles: this.#titles.subarray(0, this.#size),
      bodies: this.#bodies.subarray(0, this.#size),
      positions: (index) => {
        const own = partOf(parts, index);
        const start = before[index] as number;
        if (own !== part || start < passed) {
          const { bytes, from, to } = parts[own] as Part;
          [part, passed, reader] = [own, 0, new ByteReader(bytes, from, to)];
        }
        reader.skipNumbers(start - passed);
        const count = counts[index] as number;
        passed = start + count;
        return readPositions(reader, count);
      },
    };
  }

  #grow(): void {
    this.#ordinals = larger(this.#ordinals);
    this.#titles = larger(this.#titles);
    this.#bodies = larger(this.#bodies);
    this.#before = larger(this.#before);
    this.#counts = larger(this.#counts);
  }
}

function larger(old: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(old.length * 4);
  grown.set(old);
  return grown;
}

/** The last part that begins at or before the index. */
function partOf(parts: readonly Part[], index: number): number {
  let [low, high] = [0, parts.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >>> 1;
    if ((parts[middle] as Part).first <= index) low = middle;
    else high = middle - 1;
  }
  return low;
}
