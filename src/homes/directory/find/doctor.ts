/**
 * Proves that the search index of a data directory has every thing exactly once, with the words of its
 * record, and nothing else. What looks wrong is looked at again in one transaction, because others write
 * meanwhile.
 */
import { messageOf } from '../../../core/errors.js';
import { Slices } from '../../../core/waiting/yielding.js';
import { addBlock, noFingerprints } from '../../../find/examine/fingerprints.js';
import {
  type EntryState,
  type FiledEntry,
  type Suspect,
  entryRepair,
  livingPlaces,
  problemOf,
  suspectAt,
} from '../../../find/examine/states.js';
import type { ExaminedFinding, Finding, OnProgress } from '../../../operations/model.js';
import { keyAfterPrefix, prefixRange } from '../kernel/engine.js';
import { knownStats } from '../kernel/inspect/inspect.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import { blocksOf, dropSegment, segmentDamage } from './filing/filing.js';
import type { FilingWork } from './filing/work.js';
import { partitionsIn } from './filing/work.js';
import { markedAtMs, putMark } from './filing/marks.js';
import { namedKinds, readNames } from './names.js';
import { isReindexed } from './reindex/rows.js';
import {
  type SegmentRow,
  decodeSegment,
  encodeSegment,
  findFamilies,
  markKey,
  segmentKey,
  segmentKeyBytes,
} from './rows.js';
import { type SegmentReader, readSegments } from './segments.js';
import type { EntrySources } from './sources.js';

export interface IndexExamination {
  readonly kernel: Kernel;
  readonly segments: SegmentReader;
  readonly sources: EntrySources;
  readonly work: FilingWork;
  /** When this process began to file: text of deleted things has had its time only since then. */
  readonly openedAtMs: number;
  readonly repair: boolean;
  readonly onProgress: OnProgress | undefined;
}

/** Names that are looked at in one transaction. */
const namesPerLook = 16;
const rowsPerPage = 256;

export async function* examineIndex(examination: IndexExamination): AsyncGenerator<ExaminedFinding> {
  const { kernel, onProgress } = examination;
  const { families } = await knownStats(kernel.stores);
  const blocks = families.get(findFamilies.blocks)?.entries ?? 0;
  // Every block is read, and every thing is looked at as an entry of the index and as a record.
  const total = blocks + 2 * kernel.stores.reduce((sum, store) => sum + entriesIn(store), 0);
  let done = 0;
  const onDone = (count: number): void => {
    done += count;
    onProgress?.({ phase: 'index', done: Math.min(done, total), total });
  };
  for (const [shard, store] of kernel.stores.entries())
    for await (const finding of new StoreExamination(examination, store, onDone).run())
      yield { ...finding, shard };
}

function entriesIn(store: Store): number {
  let entries = 0;
  for (const partition of partitionsIn(store, findFamilies.segments))
    for (const row of readSegments(store, partition)) entries += row.entries;
  return entries;
}

type Found = Finding & { repaired: boolean };

class StoreExamination {
  readonly #options: IndexExamination;
  readonly #store: Store;
  readonly #onDone: (count: number) => void;
  readonly #slices = new Slices();
  /** Segments that cannot be read, by their keys. They are removed after their things are marked. */
  readonly #unreadable = new Map<string, { partition: Buffer; segment: number }>();

  constructor(options: IndexExamination, store: Store, onDone: (count: number) => void) {
    this.#options = options;
    this.#store = store;
    this.#onDone = onDone;
  }

  async *run(): AsyncGenerator<Found> {
    for (const family of [findFamilies.catalogs, findFamilies.facts, findFamilies.dead, findFamilies.blocks])
      yield* this.#orphans(family);
    for (const partition of partitionsIn(this.#store, findFamilies.segments))
      yield* this.#segmentsOf(partition);
    for (const kind of namedKinds) {
      let after: Buffer | undefined;
      do {
        const page = readNames(this.#store, kind, { user: null, namespace: null }, after, rowsPerPage);
        yield* this.#missing(page.names);
        this.#onDone(page.names.length);
        ({ after } = page);
      } while (after !== undefined);
    }
    yield* this.#oldMarks();
    if (this.#options.repair)
      for (const { partition, segment } of this.#unreadable.values())
        await this.#store.transact((tx) => dropSegment(tx, partition, segment));
  }

  /** Rows of segments that do not exist. */
  async *#orphans(family: string): AsyncGenerator<Found> {
    let from: Buffer | undefined = Buffer.alloc(1);
    while (from !== undefined) {
      const [row] = [...this.#store.range(family, { gte: from, limit: 1 })];
      if (row === undefined) return;
      const key = Buffer.from(row.key.subarray(0, segmentKeyBytes));
      const found = this.#store.get(findFamilies.segments, key);
      if (found === undefined) yield* this.#orphan(family, key);
      // The blocks of one segment have the same beginning.
      from = keyAfterPrefix(key);
      await this.#slices.pause();
    }
  }

  async *#orphan(family: string, key: Buffer): AsyncGenerator<Found> {
    const { repair } = this.#options;
    for (;;) {
      const rows = Array.from(
        this.#store.range(family, { ...prefixRange(key), limit: rowsPerPage }),
        (row) => row.key,
      );
      const isOrphan = await this.#store.transact((tx) => {
        if (rows.length === 0 || tx.get(findFamilies.segments, key) !== undefined) return false;
        if (repair) for (const row of rows) tx.delete(family, row);
        return true;
      });
      if (!isOrphan) return;
      yield {
        family,
        key: key.toString('hex'),
        kind: 'dangling',
        problem: `${rows.length} rows belong to a segment of the search index that does not exist.`,
        repair: 'delete the rows',
        repaired: repair,
      };
      if (!repair || rows.length < rowsPerPage) return;
    }
  }

  async *#segmentsOf(partition: Buffer): AsyncGenerator<Found> {
    for (const row of readSegments(this.#store, partition)) {
      if (row.state === 'partial') continue;
      try {
        yield* this.#segment(partition, row);
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        if (!this.#isThere(this.#store, partition, row)) continue;
        this.#unreadable.set(segmentKey(partition, row.segment).toString('hex'), { partition, ...row });
        yield this.#finding(
          partition,
          row,
          'unreadable',
          `A segment of the search index cannot be read: ${messageOf(error)}`,
        );
      }
    }
  }

  /** The same segment: not joined with others since. */
  #isThere(reader: Reader, partition: Buffer, { segment, entries }: SegmentRow): boolean {
    const key = segmentKey(partition, segment);
    const value = reader.get(findFamilies.segments, key);
    if (value === undefined) return false;
    const now = decodeSegment(key, value);
    return now.state === 'whole' && now.entries === entries;
  }

  #finding(partition: Buffer, { segment }: SegmentRow, kind: Finding['kind'], problem: string): Found {
    const key = segmentKey(partition, segment).toString('hex');
    const about = kind === 'unreadable' ? 'mark its things and delete it' : 'write the row again';
    return {
      family: findFamilies.segments,
      key,
      kind,
      problem,
      repair: about,
      repaired: this.#options.repair,
    };
  }

  async *#segment(partition: Buffer, row: SegmentRow): AsyncGenerator<Found> {
    const { segments, sources } = this.#options;
    const store = this.#store;
    const { catalog, facts } = segments.open(store, partition, row);
    yield* this.#row(partition, row);
    const sums = noFingerprints(catalog.count);
    for await (const block of blocksOf(store, partition, row.segment)) {
      addBlock(sums, block);
      this.#onDone(1);
      await this.#slices.pause();
    }
    const compared = {
      segment: String(row.segment),
      catalog,
      facts,
      dead: segments.dead(store, partition, row.segment),
      sums,
    };
    let suspects: Suspect[] = [];
    for (const place of livingPlaces(compared, store.nowMs())) {
      const name = catalog.name(place);
      const suspect = suspectAt(compared, place, sources[name.kind](store, partition, name, store.nowMs()));
      if (suspect !== null) suspects.push(suspect);
      this.#onDone(1);
      if (suspects.length === namesPerLook) {
        yield* await this.#look(partition, suspects);
        suspects = [];
      }
      await this.#slices.pause();
    }
    yield* await this.#look(partition, suspects);
  }

  /** The counts and times of a segment, which decide when its dead text leaves. */
  async *#row(partition: Buffer, row: SegmentRow): AsyncGenerator<Found> {
    const { segments, repair, openedAtMs, work, kernel } = this.#options;
    const key = segmentKey(partition, row.segment);
    const problem = await this.#store.transact((tx) => {
      if (!this.#isThere(tx, partition, row)) return null;
      const now = decodeSegment(key, tx.get(findFamilies.segments, key) as Buffer); // `#isThere` has read it.
      const opened = segments.open(tx, partition, now);
      const damage = segmentDamage(now, opened, segments.dead(tx, partition, row.segment), tx.nowMs);
      if (damage !== null && repair) tx.put(findFamilies.segments, key, encodeSegment(damage.right));
      return damage?.problem ?? null;
    });
    if (problem !== null) yield this.#finding(partition, row, 'wrong', problem);
    const boundMs = kernel.limits.findDeadSecondsMax * 1_000;
    const sinceMs = Math.min(row.deadSinceMs ?? Infinity, row.nextExpiryMs ?? Infinity);
    if (this.#store.nowMs() - Math.max(sinceMs, openedAtMs) <= boundMs) return;
    if (repair) while (await work.merge(this.#store, partition)) continue;
    yield this.#finding(
      partition,
      row,
      'wrong',
      `A segment of the search index has had text of deleted or expired things for more than ${boundMs / 1_000} s (findDeadSecondsMax).`,
    );
  }

  /** Things that have no entry, or several. */
  async *#missing(names: ReturnType<typeof readNames>['names']): AsyncGenerator<Found> {
    const suspects = new Map<string, { partition: Buffer; suspects: Suspect[] }>();
    let rows: { partition: Buffer; segments: SegmentRow[] } | undefined;
    for (const { partition, name } of names) {
      if (rows?.partition.equals(partition) !== true)
        rows = { partition, segments: readSegments(this.#store, partition) };
      const isRight =
        this.#store.get(findFamilies.marks, markKey(partition, name)) !== undefined ||
        this.#filed(this.#store, partition, rows.segments, name, this.#store.nowMs()).length === 1;
      if (!isRight) {
        const known = suspects.get(partition.toString('hex')) ?? { partition, suspects: [] };
        known.suspects.push({ name });
        suspects.set(partition.toString('hex'), known);
      }
      const pause = this.#slices.pause();
      if (pause === undefined) continue;
      await pause;
      // Segments may have been joined meanwhile.
      rows = undefined;
    }
    for (const { partition, suspects: all } of suspects.values())
      for (let at = 0; at < all.length; at += namesPerLook)
        yield* await this.#look(partition, all.slice(at, at + namesPerLook));
  }

  /** The entries of a thing. `rows` are all segments of its partition, read in the same turn. */
  #filed(
    reader: Reader,
    partition: Buffer,
    rows: readonly SegmentRow[],
    name: Suspect['name'],
    nowMs: number,
  ): FiledEntry[] {
    const { segments } = this.#options;
    return rows.flatMap((row) => {
      const { segment, state } = row;
      if (state === 'partial' || this.#unreadable.has(segmentKey(partition, segment).toString('hex')))
        return [];
      const { catalog, facts } = segments.open(reader, partition, row);
      const place = catalog.placeOf(name);
      if (place < 0 || catalog.expiry(place) <= nowMs) return [];
      if (segments.dead(reader, partition, segment).has(place)) return [];
      return [{ segment: String(segment), facts: catalog.entry(place, facts.at(place)) }];
    });
  }

  /** Looks again, in one transaction, and marks what is wrong. */
  async #look(partition: Buffer, suspects: readonly Suspect[]): Promise<Found[]> {
    if (suspects.length === 0) return [];
    const { repair } = this.#options;
    return this.#store.transact((tx) =>
      suspects.flatMap((suspect): Found[] => {
        const key = markKey(partition, suspect.name);
        const found = problemOf(this.#stateOf(tx, partition, suspect.name), suspect);
        if (found === null) return [];
        if (repair) putMark(tx, key);
        return [
          {
            ...found,
            family: findFamilies.segments,
            key: key.toString('hex'),
            repair: entryRepair,
            repaired: repair,
          },
        ];
      }),
    );
  }

  #stateOf(tx: Transaction, partition: Buffer, name: Suspect['name']): EntryState {
    return {
      name,
      isMarked:
        tx.get(findFamilies.marks, markKey(partition, name)) !== undefined ||
        // The settings of the namespace changed: all its documents will be filed again.
        (name.kind === 'data' && isReindexed(tx, partition, name.collection)),
      entry: this.#options.sources[name.kind](tx, partition, name, tx.nowMs),
      filed: this.#filed(tx, partition, readSegments(tx, partition), name, tx.nowMs),
    };
  }

  /** Marks must be filed in time, because the text of what they replace is still there. */
  async *#oldMarks(): AsyncGenerator<Found> {
    const { kernel, openedAtMs, repair, work } = this.#options;
    const boundMs = kernel.limits.findDeadSecondsMax * 1_000;
    for (const partition of partitionsIn(this.#store, findFamilies.marks)) {
      let old = 0;
      for (const { value } of this.#store.range(findFamilies.marks, {
        ...prefixRange(partition),
        limit: rowsPerPage,
      }))
        if (this.#store.nowMs() - Math.max(markedAtMs(value), openedAtMs) > boundMs) old += 1;
      if (old === 0) continue;
      if (repair) while ((await work.file(this.#store, partition)).filed > 0) continue;
      yield {
        family: findFamilies.marks,
        key: partition.toString('hex'),
        kind: 'wrong',
        problem: `Written things have waited for the search index for more than ${boundMs / 1_000} s (findDeadSecondsMax).`,
        repair: 'file them',
        repaired: repair,
      };
    }
  }
}
