/**
 * Gathers what one search sees of a partition. It reads the words of new marks first, in slices; then everything in one
 * turn, so that it is one state.
 */
import { checkWanted } from '../../../core/waiting/cancellation.js';
import { Slices, nextTurn } from '../../../core/waiting/yielding.js';
import type { EntryName, FindKind } from '../../../find/model.js';
import type { IndexSearch } from '../../../find/port.js';
import { termsOfQuery } from '../../../find/query/query.js';
import { type BegunSegment, type BegunWords, wordsBeginningWith } from '../../../find/segments/beginnings.js';
import type { DeadPlaces } from '../../../find/segments/segment.js';
import { type ViewFilter, type ViewedPartition, seenPlaces } from '../../../find/segments/view.js';
import { type SeenWaiting, WaitingTerms } from '../../../find/segments/waiting.js';
import { prefixRange } from '../kernel/engine.js';
import type { Store } from '../kernel/store.js';
import { type Mark, hasMarks, isChange } from './filing/marks.js';
import type { MarkedEntries } from './filing/marked-entries.js';
import type { FilingWork } from './filing/work.js';
import { PlacedMarks, stampedKey } from './placed-marks.js';
import { reindexedScopes } from './reindex/rows.js';
import type { SegmentRow } from './rows.js';
import { type OpenSegment, type SegmentReader, blocksFrom, readSegments } from './segments.js';

/** If more things wait than this, a search files some of them first: that work is done once for all searches. */
const marksBeforeFiling = 2_000;
/** Waiting things whose words one search reads, while their partition cannot be filed. */
export const marksReadMax = 20_000;
/** Things that a search reads in its last turn, because they were written while it read the others. */
const lateMarksMax = 16;
/** A search files at most so often and so long, and then reads what still waits. */
const filingsBeforeSearchMax = 40;
const filingMsMax = 1_000;
/** A search gives up after so many steps, and says that it did not examine everything. */
const stepsBeforeSearchMax = 400;

/** Whether a search covers a namespace, a project or a room. */
export type Covers = (kind: FindKind, collection: string) => boolean;

export interface Gathered extends ViewedPartition {
  readonly isComplete: boolean;
}

export interface GatheringOptions {
  readonly store: Store;
  readonly partition: Buffer;
  readonly search: IndexSearch;
  readonly covers: Covers;
  readonly filter: () => ViewFilter;
  /** At most one more than a search reads. */
  readonly marks: () => readonly Mark[];
  readonly segments: SegmentReader;
  readonly entries: MarkedEntries;
  readonly work: FilingWork;
}

/** The segments of the partition, and where changed things stand in them. */
interface Placed {
  readonly rows: readonly SegmentRow[];
  readonly segments: readonly (OpenSegment & { readonly dead: DeadPlaces })[];
  readonly marks: PlacedMarks;
}

/** The words of the beginnings in these segments. */
interface SegmentWords extends BegunWords {
  /** The numbers of the segments, as `segmentsOf` writes them. */
  readonly segments: string;
}

const noneBegun: SegmentWords = { segments: 'none', words: new Map(), isComplete: true };

export class Gathering {
  readonly #options: GatheringOptions;
  readonly #wanted: ReturnType<typeof termsOfQuery>;
  readonly #terms: WaitingTerms;
  readonly #slices = new Slices();
  /** The words of waiting things, by their stamped keys; undefined if a thing has no entry. */
  readonly #read = new Map<string, SeenWaiting | undefined>();
  #placedBefore: PlacedMarks | undefined;
  #begun = noneBegun;

  constructor(options: GatheringOptions) {
    this.#options = options;
    this.#wanted = termsOfQuery(options.search.query);
    this.#terms = new WaitingTerms(this.#wanted);
  }

  async run(): Promise<Gathered> {
    const { store, partition, search, work } = this.#options;
    const filingUntilMs = performance.now() + filingMsMax;
    for (let step = 0; ; step += 1) {
      // Searches that arrived together, or waited for the same filing, take one turn each.
      await nextTurn();
      checkWanted(search.signal);
      const mayFile = step < filingsBeforeSearchMax && performance.now() < filingUntilMs;
      const isCrowded = mayFile && hasMarks(store, partition, marksBeforeFiling + 1);
      if (isCrowded && (await work.fileUnlessMerging(store, partition))) continue;
      const looked = this.#look(step === stepsBeforeSearchMax);
      if (!(looked instanceof Promise)) return looked;
      await looked;
    }
  }

  /** What this turn sees. If too much of it was not read yet, it reads that instead, and the next turn looks again. */
  #look(isLast: boolean): Gathered | Promise<void> {
    const marks = this.#options.marks();
    const placed = this.#placed();
    const unknown = marks.filter((mark) => placed.marks.isUnknown(mark) && this.#isCovered(mark));
    if (unknown.length > lateMarksMax && !isLast) return placed.marks.placeAll(unknown, this.#slices);
    // A change of what the search does not cover hides nothing.
    const rewritten = marks.filter((mark) =>
      isChange(mark) ? this.#isCovered(mark) && !placed.marks.place(mark) : true,
    );
    const covered = rewritten.filter((mark) => this.#isCovered(mark)).slice(0, marksReadMax);
    const unread = covered.filter((mark) => !this.#read.has(stampedKey(mark)));
    if (unread.length > lateMarksMax && !isLast) return this.#readAll(unread);
    const marked = rewritten.map(({ name }) => name);
    const { beginnings } = this.#wanted;
    if (beginnings.length > 0 && this.#begun.segments !== segmentsOf(placed.rows) && !isLast)
      return this.#begin(placed.rows, marked, beginnings);
    const isRead = !isLast && marks.length <= marksReadMax && this.#begun.isComplete;
    return {
      isComplete: isRead && !this.#isFiledAgain(),
      segments: this.#segments(placed),
      marked,
      waiting: covered.flatMap((mark) =>
        isLast ? (this.#read.get(stampedKey(mark)) ?? []) : (this.#words(mark) ?? []),
      ),
      begun: this.#begun.words,
    };
  }

  #placed(): Placed {
    const { store, partition, segments: reader } = this.#options;
    const rows = readSegments(store, partition).filter(({ state }) => state === 'whole');
    const segments = rows.map((row) => ({
      ...reader.open(store, partition, row),
      dead: reader.dead(store, partition, row.segment),
    }));
    const before = this.#placedBefore;
    const marks = before?.isOf(rows) === true ? before : new PlacedMarks(rows, segments);
    this.#placedBefore = marks;
    return { rows, segments, marks };
  }

  #segments({ rows, segments, marks }: Placed): Gathered['segments'] {
    const { store, partition, segments: reader } = this.#options;
    return segments.map(({ catalog, facts, dead }, index) => ({
      catalog,
      facts,
      dead,
      blocks: reader.blocks(store, partition, (rows[index] as SegmentRow).segment, this.#wanted.terms),
      changed: marks.changes[index],
    }));
  }

  /** Whether a searched namespace is being filed again. After `index: false` its words are missing until then. */
  #isFiledAgain(): boolean {
    const { store, partition, covers } = this.#options;
    const scopes = reindexedScopes(store, prefixRange(partition));
    return scopes.some(({ namespace }) => namespace !== null && covers('data', namespace));
  }

  #isCovered({ name }: Mark): boolean {
    return this.#options.covers(name.kind, name.collection);
  }

  async #readAll(marks: readonly Mark[]): Promise<void> {
    for (const mark of marks) {
      this.#words(mark);
      await this.#slices.pause();
    }
  }

  #words(mark: Mark): SeenWaiting | undefined {
    const { store, partition, entries } = this.#options;
    const key = stampedKey(mark);
    if (this.#read.has(key)) return this.#read.get(key);
    const entry = entries.of(store, partition, mark);
    const seen = entry === undefined ? undefined : this.#terms.of(entry);
    this.#read.set(key, seen);
    return seen;
  }

  /** Segments do not change, so their words can be read before the turn that reads everything else. */
  async #begin(
    rows: readonly SegmentRow[],
    marked: readonly EntryName[],
    beginnings: readonly string[],
  ): Promise<void> {
    const { store, partition, segments: reader } = this.#options;
    const filter = this.#options.filter();
    const segments = rows.map((row): BegunSegment => {
      const { segment } = row;
      const { catalog } = reader.open(store, partition, row);
      const dead = reader.dead(store, partition, segment);
      return {
        isSeen: seenPlaces({ catalog, dead }, marked, filter),
        blocksFrom: (begin) => blocksFrom(store, partition, segment, begin),
      };
    });
    this.#begun = { segments: segmentsOf(rows), ...(await wordsBeginningWith(beginnings, segments)) };
  }
}

function segmentsOf(rows: readonly SegmentRow[]): string {
  return rows.map(({ segment }) => segment).join(' ');
}
