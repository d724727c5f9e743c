/**
 * The facts of entries that may change while their words stay: of a claimed task, of a document that is set to the
 * value it has. They have a row of their own beside the catalog. Each fact has a fixed size, so a change copies the row
 * and writes over a few places of it, and a catalog is never written again.
 */
import type { EntryFacts } from '../model.js';
import { ByteReader, ByteWriter } from './bytes.js';

export type ChangingFacts = Pick<EntryFacts, 'version' | 'author' | 'timeMs'>;

/** By their places in one segment. */
export type ChangedPlaces = ReadonlyMap<number, ChangingFacts>;

/** Time and version as doubles, and the number of the author: 0 for none. */
const [timeAt, versionAt, authorAt, entryBytes] = [0, 8, 16, 20];

/** Makes the facts of a segment, in the order of its catalog. */
export class FactsWriter {
  readonly #authors = new Authors([]);
  #places = Buffer.allocUnsafe(64 * entryBytes);
  #count = 0;

  add(facts: ChangingFacts): void {
    if ((this.#count + 1) * entryBytes > this.#places.length)
      this.#places = Buffer.concat([this.#places], this.#places.length * 2);
    put(this.#places, this.#count, facts, this.#authors);
    this.#count += 1;
  }

  take(): Buffer {
    return Buffer.concat([this.#places.subarray(0, this.#count * entryBytes), this.#authors.encoded()]);
  }
}

export class SegmentFacts {
  readonly count: number;
  readonly times: Float64Array;
  readonly bytes: Buffer;
  readonly #authors: readonly string[];

  /** Of a segment with so many entries. Throws a `RangeError` for damaged bytes. */
  constructor(bytes: Buffer, count: number) {
    const size = count * entryBytes;
    if (size > bytes.length) throw new RangeError('The facts of a segment are shorter than its catalog.');
    this.count = count;
    this.bytes = bytes;
    this.times = new Float64Array(count);
    for (let place = 0; place < count; place += 1)
      this.times[place] = bytes.readDoubleLE(place * entryBytes + timeAt);
    const reader = new ByteReader(bytes, size);
    const authors: string[] = [];
    while (!reader.isAtEnd) authors.push(reader.text());
    this.#authors = authors;
  }

  /** The memory that these facts take, roughly. */
  get sizeBytes(): number {
    return this.bytes.length + this.count * 8;
  }

  at(place: number): ChangingFacts {
    const from = place * entryBytes;
    return {
      version: this.bytes.readDoubleLE(from + versionAt),
      author: this.#authors[this.bytes.readUInt32LE(from + authorAt) - 1] ?? null,
      timeMs: this.times[place] as number,
    };
  }

  get newestMs(): number {
    return this.times.reduce((newest, timeMs) => Math.max(newest, timeMs), 0);
  }

  with(changes: ChangedPlaces): SegmentFacts {
    const places = Buffer.from(this.bytes.subarray(0, this.count * entryBytes));
    // Agents that no entry names are forgotten when there are many.
    const isCrowded = this.#authors.length > this.count;
    const authors = new Authors(isCrowded ? [] : this.#authors);
    if (isCrowded)
      for (let place = 0; place < this.count; place += 1) put(places, place, this.at(place), authors);
    for (const [place, facts] of changes) put(places, place, facts, authors);
    return new SegmentFacts(Buffer.concat([places, authors.encoded()]), this.count);
  }
}

/** The agents that the entries of a segment name. The first has the number 1. */
class Authors {
  readonly #numbers: Map<string, number>;

  constructor(names: readonly string[]) {
    this.#numbers = new Map(names.map((name, index) => [name, index + 1]));
  }

  numberOf(name: string): number {
    const known = this.#numbers.get(name) ?? this.#numbers.size + 1;
    this.#numbers.set(name, known);
    return known;
  }

  encoded(): Buffer {
    const writer = new ByteWriter();
    for (const name of this.#numbers.keys()) writer.text(name);
    return writer.take();
  }
}

function put(
  places: Buffer,
  place: number,
  { version, author, timeMs }: ChangingFacts,
  authors: Authors,
): void {
  const from = place * entryBytes;
  places.writeDoubleLE(timeMs, from + timeAt);
  places.writeDoubleLE(version, from + versionAt);
  places.writeUInt32LE(author === null ? 0 : authors.numberOf(author), from + authorAt);
}
