/**
 * The catalog of a segment: the facts of its entries, sorted by kind, collection and id. The place of an entry in the
 * catalog is its place in the lists of postings, so the entries of one collection are neighbours everywhere.
 */
import { type EntryFacts, type EntryName, type FindKind, findKinds } from '../model.js';
import { compareNames } from '../ranking/order.js';
import { ByteReader, ByteWriter } from './bytes.js';

/** The facts of an entry with the lengths of its text in words. */
export interface IndexedFacts extends EntryFacts {
  readonly titleLength: number;
  readonly bodyLength: number;
}

/** The entries of one collection: places from `from` up to, and without, `to`. */
export interface CatalogRange {
  readonly kind: FindKind;
  readonly collection: string;
  readonly from: number;
  readonly to: number;
}

/** Never expires. */
const never = 0;
/** An entry has at least seven numbers and lengths, each of at least one byte. */
const entryBytesMin = 7;

/** The facts are given in the order of `compareNames`. */
export function writeCatalog(facts: readonly IndexedFacts[]): Buffer {
  const rows = new ByteWriter();
  const authors = new Map<string, number>();
  const ranges: { name: EntryName; count: number }[] = [];
  for (const { name, version, author, timeMs, expiresAtMs, titleLength, bodyLength } of facts) {
    const range = ranges.at(-1);
    if (range !== undefined && range.name.kind === name.kind && range.name.collection === name.collection)
      range.count += 1;
    else ranges.push({ name, count: 1 });
    if (author !== null && !authors.has(author)) authors.set(author, authors.size + 1);
    rows.number(author === null ? 0 : (authors.get(author) as number));
    rows.number(version);
    rows.number(timeMs);
    rows.number(expiresAtMs ?? never);
    rows.number(titleLength);
    rows.number(bodyLength);
    rows.text(name.id);
  }
  const writer = new ByteWriter();
  writer.number(facts.length);
  writer.number(authors.size);
  for (const author of authors.keys()) writer.text(author);
  writer.number(ranges.length);
  for (const { name, count } of ranges) {
    writer.number(findKinds.indexOf(name.kind));
    writer.text(name.collection);
    writer.number(count);
  }
  writer.bytes(rows.take());
  return writer.take();
}

/** A decoded catalog. Columns instead of objects: a search over a user with many entries reads all of them. */
export class Catalog {
  readonly count: number;
  /** In the order of the entries. */
  readonly ranges: readonly CatalogRange[];
  readonly times: Float64Array;
  /** Infinity: never. */
  readonly expiries: Float64Array;
  readonly titleLengths: Uint32Array;
  readonly bodyLengths: Uint32Array;
  readonly #authorNames: readonly string[];
  readonly #authors: Uint32Array;
  readonly #versions: Float64Array;
  readonly #ids: Uint32Array;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    const reader = new ByteReader(bytes);
    const count = reader.number();
    // Damaged bytes must not ask for more memory than they could fill.
    if (count * entryBytesMin > bytes.length)
      throw new RangeError('The catalog of a segment is shorter than its count of entries.');
    this.#bytes = bytes;
    this.count = count;
    this.#authorNames = readList(reader, () => reader.text());
    let place = 0;
    this.ranges = readList(reader, () => {
      const kind = findKinds[reader.number()] ?? 'data';
      const collection = reader.text();
      const from = place;
      place += reader.number();
      return { kind, collection, from, to: Math.min(place, count) };
    });
    this.times = new Float64Array(count);
    this.expiries = new Float64Array(count);
    this.titleLengths = new Uint32Array(count);
    this.bodyLengths = new Uint32Array(count);
    this.#authors = new Uint32Array(count);
    this.#versions = new Float64Array(count);
    this.#ids = new Uint32Array(count);
    for (let at = 0; at < count; at += 1) {
      this.#authors[at] = reader.number();
      this.#versions[at] = reader.number();
      this.times[at] = reader.number();
      const expiry = reader.number();
      this.expiries[at] = expiry === never ? Infinity : expiry;
      this.titleLengths[at] = reader.number();
      this.bodyLengths[at] = reader.number();
      this.#ids[at] = reader.at;
      reader.skip(reader.number());
    }
  }

  /** The memory that this catalog takes, roughly. */
  get sizeBytes(): number {
    return this.#bytes.length + this.count * 44 + this.ranges.length * 100;
  }

  /** The place of an entry, or -1. */
  placeOf(name: EntryName): number {
    let [low, high] = [0, this.count - 1];
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const order = compareNames(this.name(middle), name);
      if (order === 0) return middle;
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  id(place: number): string {
    return new ByteReader(this.#bytes, this.#ids[place]).text();
  }

  name(place: number): EntryName {
    const { kind, collection } = this.#rangeAt(place);
    return { kind, collection, id: this.id(place) };
  }

  author(place: number): string | null {
    const author = this.#authors[place] ?? 0;
    return author === 0 ? null : (this.#authorNames[author - 1] ?? null);
  }

  facts(place: number): IndexedFacts {
    const expiry = this.expiries[place] ?? Infinity;
    return {
      name: this.name(place),
      version: this.#versions[place] ?? 0,
      author: this.author(place),
      timeMs: this.times[place] ?? 0,
      expiresAtMs: expiry === Infinity ? null : expiry,
      titleLength: this.titleLengths[place] ?? 0,
      bodyLength: this.bodyLengths[place] ?? 0,
    };
  }

  #rangeAt(place: number): CatalogRange {
    let [low, high] = [0, this.ranges.length - 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.ranges[middle] as CatalogRange).to <= place) low = middle + 1;
      else high = middle;
    }
    const range = this.ranges[low];
    if (range === undefined || place < range.from || place >= range.to)
      throw new RangeError(`The catalog has no entry at place ${place}.`);
    return range;
  }
}

function readList<Item>(reader: ByteReader, read: () => Item): Item[] {
  const items: Item[] = [];
  for (let left = reader.number(); left > 0; left -= 1) items.push(read());
  return items;
}
