/**
 * Postings in columns, with the bytes of their uses left where they are. Filing and joining move hundreds of
 * postings for each entry, and an object for each would cost more than everything else.
 */
import { ByteReader } from './bytes.js';
import { skipCounts } from './postings.js';

export class PostingRows {
  count = 0;
  /** Places of entries. */
  places = new Int32Array(256);
  shapes = new Uint8Array(256);
  countsFrom = new Int32Array(256);
  countsTo = new Int32Array(256);
  positionsFrom = new Int32Array(256);
  positionsTo = new Int32Array(256);
  #sourceOf = new Int32Array(256);
  #sources: Buffer[] = [];

  clear(): void {
    this.count = 0;
    this.#sources = [];
  }

  /** The bytes of the postings that are added next. */
  addSource(bytes: Buffer): void {
    this.#sources.push(bytes);
  }

  add(
    place: number,
    shape: number,
    countsFrom: number,
    countsTo: number,
    positionsFrom: number,
    positionsTo: number,
  ): void {
    const at = this.count;
    if (at === this.places.length) this.#grow();
    this.places[at] = place;
    this.shapes[at] = shape;
    this.countsFrom[at] = countsFrom;
    this.countsTo[at] = countsTo;
    this.positionsFrom[at] = positionsFrom;
    this.positionsTo[at] = positionsTo;
    this.#sourceOf[at] = this.#sources.length - 1;
    this.count = at + 1;
  }

  sourceOf(row: number): Buffer {
    return this.#sources[this.#sourceOf[row] as number] as Buffer;
  }

  /** Adds the postings of a list. `movedTo` has the new place of each entry, -1 for one that goes; null: none moves. */
  addList(body: Buffer, from: number, to: number, movedTo: Int32Array | null): void {
    const places = new ByteReader(body, from, to);
    const size = places.number();
    const positions = new ByteReader(body, places.at + size, to);
    const end = places.at + size;
    if (end > to) throw new RangeError('The row of the index is cut off.');
    this.addSource(body);
    let place = 0;
    while (places.at < end) {
      const code = places.number();
      place += code >>> 2;
      const countsFrom = places.at;
      const count = skipCounts(places, code & 3);
      const positionsFrom = positions.at;
      positions.skipNumbers(count);
      const moved = movedTo === null ? place : (movedTo[place] ?? -1);
      if (moved >= 0) this.add(moved, code & 3, countsFrom, places.at, positionsFrom, positions.at);
    }
  }

  #grow(): void {
    const size = this.places.length * 2;
    this.places = larger(this.places, size);
    const shapes = new Uint8Array(size);
    shapes.set(this.shapes);
    this.shapes = shapes;
    this.countsFrom = larger(this.countsFrom, size);
    this.countsTo = larger(this.countsTo, size);
    this.positionsFrom = larger(this.positionsFrom, size);
    this.positionsTo = larger(this.positionsTo, size);
    this.#sourceOf = larger(this.#sourceOf, size);
  }
}

export function larger(old: Int32Array<ArrayBuffer>, size: number): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(size);
  grown.set(old);
  return grown;
}
