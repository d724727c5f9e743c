/** Reads segments: their states, catalogs and the blocks that a search needs. */
import { LRUCache } from 'lru-cache';
import { Catalog } from '../../../find/segments/catalog.js';
import { SegmentFacts } from '../../../find/segments/facts.js';
import { DeadPlaces } from '../../../find/segments/segment.js';
import { keyAfterPrefix, prefixRange } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import { type SegmentRow, blockKey, decodeSegment, findFamilies, firstTermOf, segmentKey } from './rows.js';

export function readSegments(reader: Reader, partition: Buffer): SegmentRow[] {
  return Array.from(reader.range(findFamilies.segments, prefixRange(partition)), ({ key, value }) =>
    decodeSegment(key, value),
  );
}

/** What every search of a segment reads. */
export interface OpenSegment {
  readonly catalog: Catalog;
  readonly facts: SegmentFacts;
}

/** Which facts of a segment are meant. */
export type SegmentRevision = Pick<SegmentRow, 'segment' | 'revision'>;

/** Blocks that are read together for a beginning. */
const blocksPerRead = 16;

export class SegmentReader {
  /**
   * By the key of the segment. A segment is dropped when it is removed, its facts for a later revision, and both when
   * the cache is full. Without it every search would decode them again.
   */
  readonly #open: LRUCache<string, OpenSegment & { readonly revision: number }>;

  constructor(cacheBytesMax: number) {
    this.#open = new LRUCache({
      maxSize: Math.max(1, cacheBytesMax),
      sizeCalculation: ({ catalog, facts }) => Math.max(1, catalog.sizeBytes + facts.sizeBytes),
    });
  }

  /** The row is read in the same turn or transaction, or before one that may change it. */
  open(reader: Reader, partition: Buffer, { segment, revision }: SegmentRevision): OpenSegment {
    const key = segmentKey(partition, segment);
    const name = key.toString('latin1');
    const known = this.#open.get(name);
    if (known?.revision === revision) return known;
    const catalog = known?.catalog ?? new Catalog(rowOf(reader, findFamilies.catalogs, key));
    const facts = new SegmentFacts(rowOf(reader, findFamilies.facts, key), catalog.count);
    const opened = { catalog, facts, revision };
    this.#open.set(name, opened);
    return opened;
  }

  dead(reader: Reader, partition: Buffer, segment: number): DeadPlaces {
    return new DeadPlaces(reader.get(findFamilies.dead, segmentKey(partition, segment)) ?? Buffer.alloc(0));
  }

  /** The blocks that can have the terms, in their order. */
  blocks(reader: Reader, partition: Buffer, segment: number, terms: readonly string[]): Buffer[] {
    const blocks = new Map<string, Buffer>();
    for (const term of terms) this.#addTerm(reader, partition, segment, term, blocks);
    return [...blocks].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, body]) => body);
  }

  forget(partition: Buffer, segment: number): void {
    this.#open.delete(segmentKey(partition, segment).toString('latin1'));
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
}

function rowOf(reader: Reader, family: string, key: Buffer): Buffer {
  const row = reader.get(family, key);
  if (row === undefined) throw new RangeError(`A segment has no row in ${family}.`);
  // The bytes of a row may be reused.
  return Buffer.from(row);
}

/** The blocks that can have words with this beginning, in their order, read in parts. */
export function* blocksFrom(
  reader: Reader,
  partition: Buffer,
  segment: number,
  begin: Buffer,
): Generator<Buffer> {
  const first = segmentKey(partition, segment);
  const from = Buffer.concat([first, begin]);
  for (const { value } of reader.range(findFamilies.blocks, {
    gte: first,
    lt: from,
    reverse: true,
    limit: 1,
  }))
    yield value;
  const lt = keyAfterPrefix(from);
  let start: { gte: Buffer } | { gt: Buffer } = { gte: from };
  for (;;) {
    const part: { key: Buffer; value: Buffer }[] = [
      ...reader.range(findFamilies.blocks, {
        ...start,
        ...(lt !== undefined && { lt }),
        limit: blocksPerRead,
      }),
    ];
    for (const { value } of part) yield value;
    const last = part.at(-1);
    if (last === undefined || part.length < blocksPerRead) return;
    start = { gt: Buffer.from(last.key) };
  }
}
