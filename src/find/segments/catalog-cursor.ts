/** Reads a segment from its first entry to its last, to copy them: one object for all entries, and each id once. */
import type { FindKind } from '../model.js';
import { compareCollections } from '../ranking/order.js';
import type { ByteReader } from './bytes.js';
import type { CatalogRange } from './catalog.js';
import type { SegmentFacts } from './facts.js';

/** An entry with its facts. */
export interface CatalogRow {
  readonly kind: FindKind;
  readonly collection: string;
  readonly id: Buffer;
  readonly version: number;
  readonly author: string | null;
  readonly timeMs: number;
  readonly expiresAtMs: number | null;
  readonly titleLength: number;
  readonly bodyLength: number;
}

export interface CatalogRows {
  readonly count: number;
  readonly ranges: readonly CatalogRange[];
  readonly facts: SegmentFacts;
  /** At the first entry. */
  readonly reader: ByteReader;
}

/** The entry at `place`, after `next` returned true. */
export class CatalogCursor implements CatalogRow {
  place = -1;
  id: Buffer = Buffer.alloc(0);
  version = 0;
  author: string | null = null;
  timeMs = 0;
  expiresAtMs: number | null = null;
  titleLength = 0;
  bodyLength = 0;
  readonly #rows: CatalogRows;
  #range = 0;

  constructor(rows: CatalogRows) {
    this.#rows = rows;
  }

  get kind(): FindKind {
    return (this.#rows.ranges[this.#range] as CatalogRange).kind;
  }

  get collection(): string {
    return (this.#rows.ranges[this.#range] as CatalogRange).collection;
  }

  /** False at the end. */
  next(): boolean {
    const { count, ranges, facts, reader } = this.#rows;
    this.place += 1;
    if (this.place >= count) return false;
    while ((ranges[this.#range]?.to ?? Infinity) <= this.place) this.#range += 1;
    if (this.#range === ranges.length) throw new RangeError('The catalog has more entries than its ranges.');
    this.titleLength = reader.number();
    this.bodyLength = reader.number();
    this.expiresAtMs = reader.number() || null;
    ({ version: this.version, author: this.author, timeMs: this.timeMs } = facts.at(this.place));
    this.id = this.#nextId(reader.number(), reader.number());
    return true;
  }

  /** The first bytes of the id before, then bytes of its own. */
  #nextId(shared: number, size: number): Buffer {
    const { reader } = this.#rows;
    const from = reader.at;
    reader.skip(size);
    const id = Buffer.allocUnsafe(shared + size);
    this.id.copy(id, 0, 0, shared);
    reader.bytes.copy(id, shared, from, reader.at);
    return id;
  }
}

/** The order of catalogs. Negative if `a` comes first. */
export function compareRows(a: CatalogRow, b: CatalogRow): number {
  const isSameCollection = a.collection === b.collection && a.kind === b.kind;
  return (isSameCollection ? 0 : compareCollections(a, b)) || a.id.compare(b.id);
}
