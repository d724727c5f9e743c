/**
 * Files marked things into segments and joins segments, in the background. The caller runs one of these at a
 * time for a partition, so that nothing changes a segment while it is joined.
 */
import type { Limits } from '../../../../core/settings/limits.js';
import { type Slices, inSlices } from '../../../../core/waiting/yielding.js';
import { type Block } from '../../../../find/segments/blocks.js';
import { Catalog } from '../../../../find/segments/catalog.js';
import { PlacedChanges } from '../../../../find/segments/changes.js';
import { SegmentFacts } from '../../../../find/segments/facts.js';
import {
  DeadPlaces,
  type NewSegment,
  type WaitingEntry,
  fileEntries,
  packedBytesMax,
} from '../../../../find/segments/segment.js';
import { mergedBlocks, mergedCatalog } from '../../../../find/segments/merge.js';
import { nextMerge } from '../../../../find/segments/tiers.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { type Mark, changeOf, readMarks } from './marks.js';
import { type SegmentRow, blockKey, encodeSegment, findFamilies, segmentKey } from '../rows.js';
import { type OpenSegment, type SegmentReader, readSegments } from '../segments.js';
import type { MarkedEntries } from './marked-entries.js';

/** Marks that are filed into one segment. */
const marksPerSegment = 512;
/** Bytes of blocks in one transaction of a merge, which other writes wait for. */
const stepBytes = 256 * 1024;
/** Blocks that are read or removed together. */
const blocksPerStep = 256;

export interface FilingOptions {
  readonly segments: SegmentReader;
  readonly entries: MarkedEntries;
  readonly limits: Limits;
}

export class Filing {
  readonly #options: FilingOptions;

  constructor(options: FilingOptions) {
    this.#options = options;
  }

  /** Files the first marks of a partition, in these slices. */
  async file(store: Store, partition: Buffer, slices: Slices): Promise<{ filed: number; isMore: boolean }> {
    const marks = readMarks(store, partition, marksPerSegment);
    if (marks.length === 0) return { filed: 0, isMore: false };
    const all = readSegments(store, partition);
    const rows = all.filter(({ state }) => state === 'whole');
    const { changed, placed } = await this.#changes(store, partition, rows, marks, slices);
    const filed: Mark[] = [];
    const rewritten: Mark[] = [];
    const entries: WaitingEntry[] = [];
    let bytes = 0;
    for (const mark of marks) {
      filed.push(mark);
      if (placed.has(mark)) continue;
      rewritten.push(mark);
      const entry = this.#options.entries.ofFiled(store, partition, mark);
      if (entry !== undefined && (entry.expiresAtMs ?? Infinity) > store.nowMs()) entries.push(entry);
      bytes += entry?.packed.length ?? 0;
      if (bytes >= packedBytesMax) break;
      const pause = slices.pause();
      if (pause !== undefined) await pause;
    }
    const made = await inSlices(fileEntries(entries), slices);
    const older = await this.#olderPlaces(store, partition, rows, rewritten, slices);
    await store.transact((tx) => {
      for (const { row, catalog, places } of older) {
        const facts = changed.get(row.segment);
        const state = facts === undefined ? row : rewriteFacts(tx, partition, row, facts);
        if (places.length > 0) this.#kill(tx, partition, state, catalog, places);
      }
      // A thing that was written meanwhile keeps its mark, which hides the entry that is filed here.
      for (const { key, stamp } of filed)
        if (tx.get(findFamilies.marks, key)?.equals(stamp) === true) tx.delete(findFamilies.marks, key);
      if (made.entries === 0) return;
      const segment = nextSegment(all);
      for (const block of made.blocks) putBlock(tx, partition, segment, block);
      putSegment(tx, partition, segment, made);
    });
    this.#options.entries.forget(filed);
    return { filed: filed.length, isMore: filed.length < marks.length || marks.length === marksPerSegment };
  }

  /** The new facts of segments with changed things, and the marks of these things. */
  async #changes(
    store: Store,
    partition: Buffer,
    rows: readonly SegmentRow[],
    marks: readonly Mark[],
    slices: Slices,
  ): Promise<{ changed: Map<number, SegmentFacts>; placed: Set<Mark> }> {
    const segments = rows.map((row) => ({
      row,
      ...this.#options.segments.open(store, partition, row),
      dead: this.#options.segments.dead(store, partition, row.segment),
    }));
    const placing = new PlacedChanges(segments);
    const placed = new Set<Mark>();
    for (const mark of marks) {
      const change = changeOf(mark);
      if (change !== null && placing.add(change)) placed.add(mark);
      const pause = slices.pause();
      if (pause !== undefined) await pause;
    }
    const changed = new Map<number, SegmentFacts>();
    for (const [index, { row, facts }] of segments.entries()) {
      const changes = placing.bySegment[index];
      if (changes !== undefined && changes.size > 0) changed.set(row.segment, facts.with(changes));
      const pause = slices.pause();
      if (pause !== undefined) await pause;
    }
    return { changed, placed };
  }

  /** Joins the segments that should be one. False if there are none. */
  async merge(store: Store, partition: Buffer): Promise<boolean> {
    const all = readSegments(store, partition);
    const left = all.find(({ state }) => state === 'partial');
    if (left !== undefined) {
      await this.#remove(store, partition, left.segment);
      return true;
    }
    const expired = await this.#killExpired(store, partition, all);
    if (expired) return true;
    const deadMsMax = (this.#options.limits.findDeadSecondsMax * 1000) / 2;
    const joined = nextMerge(all, store.nowMs(), deadMsMax);
    if (joined === null) return false;
    const segment = nextSegment(all);
    await store.transact((tx) => putPartial(tx, partition, segment));
    const { segments } = this.#options;
    const inputs = joined.map((row) => ({
      ...segments.open(store, partition, row),
      dead: segments.dead(store, partition, row.segment),
      blocks: blocksOf(store, partition, row.segment),
    }));
    const merged = await mergedCatalog(inputs, store.nowMs());
    let step: Block[] = [];
    let bytes = 0;
    for await (const complete of mergedBlocks(inputs, merged)) {
      for (const block of complete) bytes += block.body.length;
      step.push(...complete);
      if (bytes < stepBytes) continue;
      const blocks = step;
      await store.transact((tx) => {
        for (const block of blocks) putBlock(tx, partition, segment, block);
      });
      [step, bytes] = [[], 0];
    }
    await store.transact((tx) => {
      for (const block of step) putBlock(tx, partition, segment, block);
      for (const { segment: old } of joined) putPartial(tx, partition, old);
      if (merged.entries > 0) putSegment(tx, partition, segment, merged);
    });
    for (const { segment: old } of joined) await this.#remove(store, partition, old);
    return true;
  }

  /**
   * The entries of the marked things in older segments: they are dead when the new ones are filed. Looked up
   * before the transaction, because only the filing changes segments, and many of them take long.
   */
  async #olderPlaces(
    store: Store,
    partition: Buffer,
    rows: readonly SegmentRow[],
    filed: readonly Mark[],
    slices: Slices,
  ): Promise<{ row: SegmentRow; catalog: Catalog; places: number[] }[]> {
    const older = [];
    for (const row of rows) {
      const { catalog } = this.#options.segments.open(store, partition, row);
      const places: number[] = [];
      for (const { name } of filed) {
        const place = catalog.placeOf(name);
        if (place >= 0) places.push(place);
        const pause = slices.pause();
        if (pause !== undefined) await pause;
      }
      older.push({ row, catalog, places });
    }
    return older;
  }

  #kill(
    tx: Transaction,
    partition: Buffer,
    row: SegmentRow,
    catalog: Catalog,
    places: readonly number[],
  ): void {
    const dead = this.#options.segments.dead(tx, partition, row.segment).with(places);
    const key = segmentKey(partition, row.segment);
    tx.put(findFamilies.dead, key, dead.bytes);
    const state = {
      ...row,
      dead: dead.count,
      deadSinceMs: row.deadSinceMs ?? tx.nowMs,
      nextExpiryMs: nextExpiry(catalog, dead),
    };
    tx.put(findFamilies.segments, key, encodeSegment(state));
  }

  /** The text of expired entries leaves too, whether or not their records were removed already. */
  async #killExpired(store: Store, partition: Buffer, rows: readonly SegmentRow[]): Promise<boolean> {
    const nowMs = store.nowMs();
    const due = rows.filter(({ nextExpiryMs }) => nextExpiryMs !== null && nextExpiryMs <= nowMs);
    for (const row of due) {
      const { catalog } = this.#options.segments.open(store, partition, row);
      const places: number[] = [];
      for (let place = 0; place < catalog.count; place += 1)
        if (catalog.expiry(place) <= nowMs) places.push(place);
      await store.transact((tx) => this.#kill(tx, partition, row, catalog, places));
    }
    return due.length > 0;
  }

  /** Removes the rows of a segment that is not searched. Its state goes last, so that an interruption is seen. */
  async #remove(store: Store, partition: Buffer, segment: number): Promise<void> {
    const key = segmentKey(partition, segment);
    for (;;) {
      const keys = Array.from(
        store.range(findFamilies.blocks, { ...prefixRange(key), limit: blocksPerStep }),
        (entry) => entry.key,
      );
      await store.transact((tx) => {
        for (const block of keys) tx.delete(findFamilies.blocks, block);
        if (keys.length === blocksPerStep) return;
        tx.delete(findFamilies.catalogs, key);
        tx.delete(findFamilies.facts, key);
        tx.delete(findFamilies.dead, key);
        tx.delete(findFamilies.segments, key);
      });
      if (keys.length < blocksPerStep) break;
    }
    this.#options.segments.forget(partition, segment);
  }
}

function nextSegment(rows: readonly SegmentRow[]): number {
  return (rows.at(-1)?.segment ?? 0) + 1;
}

function putBlock(tx: Transaction, partition: Buffer, segment: number, { first, from, body }: Block): void {
  tx.put(findFamilies.blocks, blockKey(partition, segment, first, from), body);
}

function putSegment(
  tx: Transaction,
  partition: Buffer,
  segment: number,
  { catalog, facts, entries }: Omit<NewSegment, 'blocks'>,
): void {
  const key = segmentKey(partition, segment);
  tx.put(findFamilies.catalogs, key, catalog);
  tx.put(findFamilies.facts, key, facts);
  const nextExpiryMs = nextExpiry(new Catalog(catalog), new DeadPlaces(Buffer.alloc(0)));
  const { newestMs } = new SegmentFacts(facts, entries);
  tx.put(
    findFamilies.segments,
    key,
    encodeSegment({
      state: 'whole',
      entries,
      dead: 0,
      deadSinceMs: null,
      nextExpiryMs,
      newestMs,
      revision: 0,
    }),
  );
}

/** Returns the state of the segment with the new facts. */
function rewriteFacts(tx: Transaction, partition: Buffer, row: SegmentRow, facts: SegmentFacts): SegmentRow {
  const key = segmentKey(partition, row.segment);
  const state = { ...row, revision: row.revision + 1, newestMs: facts.newestMs };
  tx.put(findFamilies.facts, key, facts.bytes);
  tx.put(findFamilies.segments, key, encodeSegment(state));
  return state;
}

/** From now on the segment is not searched. The next merge removes its rows. */
export function dropSegment(tx: Transaction, partition: Buffer, segment: number): void {
  putPartial(tx, partition, segment);
}

/** What is wrong in the row of a segment, and the right row; null if nothing is. */
export function segmentDamage(
  row: SegmentRow,
  { catalog, facts }: OpenSegment,
  dead: DeadPlaces,
  nowMs: number,
): { problem: string; right: SegmentRow } | null {
  const expiryMs = nextExpiry(catalog, dead);
  const right: SegmentRow = {
    ...row,
    entries: catalog.count,
    dead: dead.count,
    deadSinceMs: dead.count === 0 ? null : (row.deadSinceMs ?? nowMs),
    nextExpiryMs: expiryMs,
    newestMs: facts.newestMs,
  };
  if (row.newestMs !== right.newestMs)
    return { problem: 'A segment of the search index does not note the time of its newest entry.', right };
  if (row.entries !== right.entries)
    return {
      problem: `A segment of the search index counts ${row.entries} entries and has ${right.entries}.`,
      right,
    };
  if (row.dead !== right.dead || (row.deadSinceMs === null) !== (right.deadSinceMs === null))
    return {
      problem: `A segment of the search index counts ${row.dead} dead entries and has ${right.dead}.`,
      right,
    };
  // It may be earlier than that of any living entry: the entry died since.
  if ((row.nextExpiryMs ?? Infinity) > (expiryMs ?? Infinity))
    return { problem: 'A segment of the search index does not note when its next entry expires.', right };
  return null;
}

function putPartial(tx: Transaction, partition: Buffer, segment: number): void {
  const none = { entries: 0, dead: 0, deadSinceMs: null, nextExpiryMs: null, newestMs: 0, revision: 0 };
  const state = { state: 'partial', ...none } as const;
  tx.put(findFamilies.segments, segmentKey(partition, segment), encodeSegment(state));
}

/** The first expiry of the living entries. It may have passed: such an entry still has to leave. */
function nextExpiry({ expiries }: Catalog, dead: DeadPlaces): number | null {
  let next = Infinity;
  for (const [place, expiry] of (expiries ?? []).entries())
    if (expiry < next && !dead.has(place)) next = expiry;
  return next === Infinity ? null : next;
}

/** All blocks of a segment, read in parts: a merge pauses between them. */
export async function* blocksOf(store: Reader, partition: Buffer, segment: number): AsyncGenerator<Buffer> {
  const { gte, lt } = prefixRange(segmentKey(partition, segment));
  let after: Buffer | undefined;
  for (;;) {
    const start = after === undefined ? { gte: gte as Buffer } : { gt: after };
    const part = [
      ...store.range(findFamilies.blocks, { ...start, ...(lt !== undefined && { lt }), limit: 64 }),
    ];
    for (const { value } of part) yield value;
    if (part.length < 64) return;
    after = part.at(-1)?.key;
  }
}
