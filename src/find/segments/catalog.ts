/**
 * The catalog of a segment: the names of its entries with what never changes while their words stay, sorted by kind,
 * collection and id. The place of an entry in the catalog is its place in the lists of postings, so the entries of one
 * collection are neighbours everywhere. The other facts are in a row of their own (`facts.ts`).
 */
import { type EntryFacts, type EntryName, type FindKind, findKinds } from '../model.js';
import { compareCollections } from '../ranking/order.js';
import { ByteReader, ByteWriter, sharedBytes } from './bytes.js';
import { CatalogCursor, type CatalogRow } from './catalog-cursor.js';
import { type ChangingFacts, FactsWriter, type SegmentFacts } from './facts.js';

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
/** An entry has at least five numbers, each of at least one byte. */
const entryBytesMin = 5;
/** One of so many ids is stored whole; the others share the beginning of the id before. */
const idsPerRestart = 16;

/** Makes the catalog and the facts of a segment. */
export class CatalogWriter {
  readonly #rows = new ByteWriter();
  readonly #facts = new FactsWriter();
  readonly #ranges: { readonly kind: FindKind; readonly collection: string; count: number }[] = [];
  #before: Buffer = Buffer.alloc(0);
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Entries are given in the order of `compareRows`. */
  add(row: CatalogRow): void {
    const { kind, collection, id, expiresAtMs, titleLength, bodyLength } = row;
    const rows = this.#rows;
    const range = this.#ranges.at(-1);
    if (range !== undefined && range.kind === kind && range.collection === collection) range.count += 1;
    else this.#ranges.push({ kind, collection, count: 1 });
    const shared = this.#count % idsPerRestart === 0 ? 0 : sharedBytes(this.#before, id);
    this.#facts.add(row);
    rows.number(titleLength);
    rows.number(bodyLength);
    rows.number(expiresAtMs ?? never);
    rows.number(shared);
    rows.number(id.length - shared);
    rows.bytes(id, shared);
    this.#before = id;
    this.#count += 1;
  }

  take(): { readonly catalog: Buffer; readonly facts: Buffer } {
    const writer = new ByteWriter();
    writer.number(this.#count);
    writer.number(this.#ranges.length);
    for (const { kind, collection, count } of this.#ranges) {
      writer.number(findKinds.indexOf(kind));
      writer.text(collection);
      writer.number(count);
    }
    writer.bytes(this.#rows.take());
    return { catalog: writer.take(), facts: this.#facts.take() };
  }
}

/**
 * A decoded catalog. What every search reads is in columns: a search over a user with many entries reads all
 * of them. The ids stay in the bytes, and are read of the results only.
 */
export class Catalog {
  readonly count: number;
  /** In the order of the entries. */
  readonly ranges: readonly CatalogRange[];
  readonly titleLengths: Uint32Array;
  readonly bodyLengths: Uint32Array;
  /** Infinity: never. Null if none of the entries expires. */
  readonly expiries: Float64Array | null;
  /** Where the first entry begins in the bytes. */
  readonly #first: number;
  /** Where the id of an entry begins in the bytes. */
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
    let place = 0;
    this.ranges = readList(reader, () => {
      const kind = findKinds[reader.number()] ?? 'data';
      const collection = reader.text();
      const from = place;
      place += reader.number();
      return { kind, collection, from, to: Math.min(place, count) };
    });
    this.#first = reader.at;
    this.titleLengths = new Uint32Array(count);
    this.bodyLengths = new Uint32Array(count);
    this.#ids = new Uint32Array(count);
    let expiries: Float64Array | null = null;
    for (let at = 0; at < count; at += 1) {
      this.titleLengths[at] = reader.number();
      this.bodyLengths[at] = reader.number();
      const expiry = reader.number();
      if (expiry !== never) {
        expiries ??= new Float64Array(count).fill(Infinity);
        expiries[at] = expiry;
      }
      this.#ids[at] = reader.at;
      reader.skipNumbers(1);
      reader.skip(reader.number());
    }
    this.expiries = expiries;
  }

  /** The memory that this catalog takes, roughly. */
  get sizeBytes(): number {
    return this.#bytes.length + this.count * (this.expiries === null ? 12 : 20) + this.ranges.length * 100;
  }

  /** Reads all entries with their facts, in their order. */
  cursor(facts: SegmentFacts): CatalogCursor {
    return new CatalogCursor({
      count: this.count,
      ranges: this.ranges,
      facts,
      reader: new ByteReader(this.#bytes, this.#first),
    });
  }

  /** Infinity: never. */
  expiry(place: number): number {
    return this.expiries?.[place] ?? Infinity;
  }

  /** The place of an entry, or -1. */
  placeOf({ kind, collection, id }: EntryName): number {
    const range = this.#rangeOf(kind, collection);
    if (range === undefined) return -1;
    const wanted = Buffer.from(id);
    // The last id of the range that is stored whole and not after the wanted one. No id is built for this.
    let start = range.from;
    let [low, high] = [Math.ceil(start / idsPerRestart), Math.floor((range.to - 1) / idsPerRestart)];
    while (low <= high) {
      const middle = (low + high) >>> 1;
      if (this.#compareEnd(middle * idsPerRestart, wanted, 0) <= 0) {
        start = middle * idsPerRestart;
        low = middle + 1;
      } else high = middle - 1;
    }
    const first = this.#id(start);
    if (first.equals(wanted)) return start;
    return first.compare(wanted) > 0
      ? -1
      : this.#placeAfter(start, range.to, wanted, sharedBytes(first, wanted));
  }

  /** The place of an id after that of `start`, which is smaller and has the first `known` bytes in common with it. */
  #placeAfter(start: number, end: number, wanted: Buffer, known: number): number {
    let matching = known;
    for (let place = start + 1; place < end; place += 1) {
      const reader = this.#idReader(place);
      const shared = reader.number();
      // More in common with the id before than that had with the wanted one: it differs at the same byte.
      if (shared > matching) continue;
      // It is larger than the id before at a byte where that was equal.
      if (shared < matching) return -1;
      const order = this.#compareEnd(place, wanted, shared);
      if (order >= 0) return order === 0 ? place : -1;
      const size = reader.number();
      for (const from = reader.at; matching - shared < size; matching += 1)
        if (this.#bytes[from + matching - shared] !== wanted[matching]) break;
    }
    return -1;
  }

  id(place: number): string {
    return this.#id(place).toString();
  }

  name(place: number): EntryName {
    const { kind, collection } = this.#rangeAt(place);
    return { kind, collection, id: this.id(place) };
  }

  /** An entry with its facts. */
  entry(place: number, facts: ChangingFacts): IndexedFacts {
    const expiry = this.expiry(place);
    return {
      name: this.name(place),
      ...facts,
      expiresAtMs: expiry === Infinity ? null : expiry,
      titleLength: this.titleLengths[place] ?? 0,
      bodyLength: this.bodyLengths[place] ?? 0,
    };
  }

  #id(place: number): Buffer {
    const parts: Buffer[] = [];
    // From the id backwards: each id before it has the beginning that is still missing.
    let missing = Infinity;
    for (let at = place; missing > 0 && at >= 0; at -= 1) {
      const reader = this.#idReader(at);
      const [shared, size] = [reader.number(), reader.number()];
      if (shared >= missing) continue;
      const from = reader.at;
      reader.skip(size);
      parts.push(this.#bytes.subarray(from, Math.min(reader.at, from + missing - shared)));
      missing = shared;
    }
    return parts.length === 1 ? (parts[0] as Buffer) : Buffer.concat(parts.toReversed());
  }

  /** Reads how many bytes the id of an entry shares with the id before it, then the number of its other bytes. */
  #idReader(place: number): ByteReader {
    return new ByteReader(this.#bytes, this.#ids[place]);
  }

  /** Compares the stored bytes of an id, those after the shared ones, with the end of the wanted id. */
  #compareEnd(place: number, wanted: Buffer, shared: number): number {
    const reader = this.#idReader(place);
    reader.skipNumbers(1);
    const size = reader.number();
    const from = reader.at;
    reader.skip(size);
    // A loop: ids are short, and `Buffer.compare` with four offsets takes longer to check them than to
    // compare.
    const length = Math.min(size, wanted.length - shared);
    for (let at = 0; at < length; at += 1) {
      const order = (this.#bytes[from + at] ?? 0) - (wanted[shared + at] ?? 0);
      if (order !== 0) return order;
    }
    return size - (wanted.length - shared);
  }

  #rangeOf(kind: FindKind, collection: string): CatalogRange | undefined {
    let [low, high] = [0, this.ranges.length - 1];
    while (low <= high) {
      const middle = (low + high) >>> 1;
      const range = this.ranges[middle] as CatalogRange;
      const order = compareCollections(range, { kind, collection });
      if (order === 0) return range;
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return undefined;
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
