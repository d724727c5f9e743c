/** Reads segments: their states, catalogs and the blocks that a search needs. */
import { LRUCache } from 'lru-cache';
import { Catalog } from '../../../find/segments/catalog.js';
import { DeadPlaces } from '../../../find/segments/segment.js';
import type { Wanted } from '../../../find/segments/waiting.js';
import type { ViewedSegment } from '../../../find/segments/view.js';
import { keyAfterPrefix, prefixRange } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import { type SegmentRow, blockKey, decodeSegment, findFamilies, firstTermOf, segmentKey } from './rows.js';

export function readSegments(reader: Reader, partition: Buffer): SegmentRow[] {
  return Array.from(reader.range(findFamilies.segments, prefixRange(partition)), ({ key, value }) =>
    decodeSegment(key, value),
  );
}

/** Blocks that one beginning reads of a segment. A short beginning would read the whole segment. */
const beginningBlocksMax = 64;

export class SegmentReader {
  /**
   * By the key of the segment. A catalog never changes, and is dropped with its segment or for others. Without it
   * every search would decode the catalogs again.
   */
  readonly #catalogs: LRUCache<string, Catalog>;

  constructor(cacheBytesMax: number) {
    this.#catalogs = new LRUCache({
      maxSize: Math.max(1, cacheBytesMax),
      sizeCalculation: ({ sizeBytes }) => Math.max(1, sizeBytes),
    });
  }

  catalog(reader: Reader, partition: Buffer, segment: number): Catalog {
    const key = segmentKey(partition, segment);
    const name = key.toString('latin1');
    const known = this.#catalogs.get(name);
    if (known !== undefined) return known;
    const row = reader.get(findFamilies.catalogs, key);
    if (row === undefined) throw new RangeError(`The segment ${segment} has no catalog.`);
    const catalog = new Catalog(Buffer.from(row));
    this.#catalogs.set(name, catalog);
    return catalog;
  }

  dead(reader: Reader, partition: Buffer, segment: number): DeadPlaces {
    return new DeadPlaces(reader.get(findFamilies.dead, segmentKey(partition, segment)) ?? Buffer.alloc(0));
  }

  /** A segment with the blocks that can have the wanted terms. */
  view(reader: Reader, partition: Buffer, { segment }: SegmentRow, wanted: Wanted): ViewedSegment {
    return {
      catalog: this.catalog(reader, partition, segment),
      dead: this.dead(reader, partition, segment),
      blocks: this.blocks(reader, partition, segment, wanted),
    };
  }

  /** The blocks that can have the wanted terms, in their order. */
  blocks(reader: Reader, partition: Buffer, segment: number, { terms, beginnings }: Wanted): Buffer[] {
    const blocks = new Map<string, Buffer>();
    for (const term of terms) this.#addTerm(reader, partition, segment, term, blocks);
    for (const begin of beginnings) this.#addBeginning(reader, partition, segment, begin, blocks);
    return [...blocks].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, body]) => body);
  }

  forget(partition: Buffer, segment: number): void {
    this.#catalogs.delete(segmentKey(partition, segment).toString('latin1'));
  }

  #addTerm(
    reader: Reader,
    partition: Buffer,
    segment: number,
    term: string,
    blocks: Map<string, Buffer>,
  ): void {
    const bounds = {
      gte: segmentKey(partition, segment),
      lte: blockKey(partition, segment, term, 0xffffffff),
      reverse: true,
    };
    // A list may begin in the block before those that begin with its term.
    for (const { key, value } of reader.range(findFamilies.blocks, bounds)) {
      blocks.set(key.toString('latin1'), value);
      if (firstTermOf(key) !== term) return;
    }
  }

  #addBeginning(
    reader: Reader,
    partition: Buffer,
    segment: number,
    begin: string,
    blocks: Map<string, Buffer>,
  ): void {
    const from = Buffer.concat([segmentKey(partition, segment), Buffer.from(begin)]);
    const first = blockBefore(reader, partition, segment, from);
    if (first !== undefined) blocks.set(first.key.toString('latin1'), first.value);
    const lt = keyAfterPrefix(from);
    const bounds = { gte: from, ...(lt !== undefined && { lt }), limit: beginningBlocksMax };
    for (const { key, value } of reader.range(findFamilies.blocks, bounds))
      blocks.set(key.toString('latin1'), value);
  }
}

/** The last block of the segment whose key is not above this one. */
function blockBefore(
  reader: Reader,
  partition: Buffer,
  segment: number,
  key: Buffer,
): { key: Buffer; value: Buffer } | undefined {
  const bounds = { gte: segmentKey(partition, segment), lte: key, reverse: true, limit: 1 };
  for (const found of reader.range(findFamilies.blocks, bounds)) return found;
  return undefined;
}
