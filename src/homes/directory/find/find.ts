/** The search index of a data directory: answers searches, and files in the background what was written. */
import type { Limits } from '../../../core/settings/limits.js';
import { checkWanted } from '../../../core/waiting/cancellation.js';
import { Slices, nextTurn } from '../../../core/waiting/yielding.js';
import type { CurrentDocuments } from '../../../datastore/document-store/current-documents.js';
import type { Scope } from '../../../datastore/model.js';
import type { EntryName, FindKind } from '../../../find/model.js';
import { type FindPort, type IndexSearch, type SearchedParts } from '../../../find/port.js';
import { termsOfQuery } from '../../../find/query/query.js';
import { searchView } from '../../../find/ranking/search-view.js';
import { type BegunSegment, type BegunWords, wordsBeginningWith } from '../../../find/segments/beginnings.js';
import { IndexView, type ViewFilter, type ViewedPartition, seenPlaces } from '../../../find/segments/view.js';
import { type SeenWaiting, WaitingTerms } from '../../../find/segments/waiting.js';
import { userKey } from '../../../identity/user-key.js';
import type { ExaminedFinding, OnProgress } from '../../../operations/model.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import { FilingWork } from './filing/work.js';
import { Filing } from './filing/filing.js';
import { examineIndex } from './doctor.js';
import { MarkedEntries } from './filing/marked-entries.js';
import { type Mark, hasMarks, isChange, readMarks } from './filing/marks.js';
import { MessageIndex } from './message-index.js';
import { PlacedMarks, stampedKey } from './placed-marks.js';
import { Reindexing } from './reindex/reindex.js';
import { type SegmentRow, messagesPartition } from './rows.js';
import { SegmentReader, blocksFrom, readSegments } from './segments.js';
import { indexSize } from './size.js';
import type { EntrySources } from './sources.js';
import { expireStoreEntries } from './store-entries.js';
import { DirectoryVectors } from './vectors/vectors.js';

/** Whether a search covers a namespace, a project or a room. */
type Covers = (kind: FindKind, collection: string) => boolean;

/** The words of the beginnings in these segments. */
interface SegmentWords extends BegunWords {
  /** The numbers of the segments, as `segmentsOf` writes them. */
  readonly segments: string;
}

const noneBegun: SegmentWords = { segments: 'none', words: new Map(), isComplete: true };

function segmentsOf(rows: readonly SegmentRow[]): string {
  return rows.map(({ segment }) => segment).join(' ');
}

export interface DirectoryFindOptions {
  readonly kernel: Kernel;
  readonly sources: EntrySources;
  /** Whether documents of the namespace are found by their words. */
  readonly isIndexed: (scope: Scope) => boolean;
  /** The rooms that a search with this owner covers. */
  readonly isRoomSeen: (roomId: string, owner: string | null) => boolean;
  readonly onError: (error: unknown, about: string) => void;
}

/** If more things wait than this, a search files some of them first: that work is done once for all searches. */
const marksBeforeFiling = 2_000;
/** Waiting things whose words one search reads, while their partition cannot be filed. */
const marksReadMax = 20_000;
/** Things that a search reads in its last turn, because they were written while it read the others. */
const lateMarksMax = 16;
/** A search files at most so often and so long, and then reads what still waits. */
const filingsBeforeSearchMax = 40;
const filingMsMax = 1_000;
/** A search gives up after so many steps, and says that it did not examine everything. */
const stepsBeforeSearchMax = 400;

export class DirectoryFind implements FindPort {
  readonly work: FilingWork;
  readonly vectors: DirectoryVectors;
  readonly #reindexing: Reindexing;
  readonly #kernel: Kernel;
  readonly #limits: Limits;
  readonly messages: MessageIndex;
  readonly #isIndexed: DirectoryFindOptions['isIndexed'];
  readonly #isRoomSeen: DirectoryFindOptions['isRoomSeen'];
  readonly #segments: SegmentReader;
  readonly #entries: MarkedEntries;
  readonly #sources: EntrySources;
  readonly #openedAtMs: number;
  #current: CurrentDocuments | null = null;

  constructor({ kernel, sources, isIndexed, isRoomSeen, onError }: DirectoryFindOptions) {
    const { limits } = kernel;
    this.#kernel = kernel;
    this.vectors = new DirectoryVectors(kernel, onError);
    this.#limits = limits;
    this.#sources = sources;
    this.#isIndexed = isIndexed;
    this.#isRoomSeen = isRoomSeen;
    this.#segments = new SegmentReader(limits.findCacheBytesMax);
    this.#entries = new MarkedEntries(sources, limits.findCacheBytesMax);
    this.messages = new MessageIndex({
      store: kernel.root,
      entries: this.#entries,
      segments: this.#segments,
    });
    const filing = new Filing({ segments: this.#segments, entries: this.#entries, limits });
    this.work = new FilingWork({ kernel, filing, limits, onError });
    this.#reindexing = new Reindexing({
      kernel,
      segments: this.#segments,
      sources,
      work: this.work,
      current: () => this.#current,
      onError,
    });
    expireStoreEntries(kernel);
    this.#openedAtMs = kernel.nowMs();
  }

  readonly useStore: FindPort['useStore'] = (current) => {
    this.#current = current;
  };

  start(): void {
    this.work.start();
    this.#reindexing.start();
  }

  async close(): Promise<void> {
    await this.work.close();
    await this.#reindexing.close();
    await this.vectors.close();
  }

  readonly reindex: FindPort['reindex'] = (scope, onProgress) => this.#reindexing.run(scope, onProgress);

  /** Compares the index with the records. With `repair`, what differs is marked to be filed again. */
  examine(repair: boolean, onProgress?: OnProgress): AsyncGenerator<ExaminedFinding> {
    return examineIndex({
      kernel: this.#kernel,
      segments: this.#segments,
      sources: this.#sources,
      work: this.work,
      openedAtMs: this.#openedAtMs,
      repair,
      onProgress,
    });
  }

  readonly size: FindPort['size'] = async () => indexSize(this.#kernel);

  readonly search: FindPort['search'] = async (search) => {
    const { data, tasks, messages } = search.parts;
    const covers = this.#covered(search.parts);
    const user = data?.user ?? tasks?.user;
    const partitions: (ViewedPartition & { isComplete: boolean })[] = [];
    if (user !== undefined) {
      const partition = userKey(user);
      partitions.push(await this.#viewed(this.#kernel.storeOf(partition), partition, search, covers));
    }
    if (messages !== null)
      partitions.push(await this.#viewed(this.#kernel.root, messagesPartition, search, covers));
    const view = new IndexView(partitions, this.#filter(search, covers));
    const answer = await searchView(view, search, this.#limits);
    return { ...answer, isComplete: answer.isComplete && partitions.every(({ isComplete }) => isComplete) };
  };

  #filter({ asOfMs }: IndexSearch, hasCollection: Covers): ViewFilter {
    // A later page must not count what expired since the first one, and must not show it either.
    return { hasCollection, nowMs: Math.max(asOfMs, this.#kernel.nowMs()) };
  }

  #covered({ data, tasks, messages }: SearchedParts): Covers {
    const indexed = new Map<string, boolean>();
    const isIndexed = (user: string, namespace: string): boolean => {
      const known = indexed.get(namespace) ?? this.#isIndexed({ user, namespace });
      indexed.set(namespace, known);
      return known;
    };
    return (kind, collection) => {
      switch (kind) {
        case 'data':
          return (
            data !== null &&
            (data.namespaces === null || data.namespaces.includes(collection)) &&
            isIndexed(data.user, collection)
          );
        case 'tasks':
          return tasks !== null && (tasks.project === null || tasks.project === collection);
        default:
          return (
            messages !== null &&
            (messages.rooms === null || messages.rooms.includes(collection)) &&
            this.#isRoomSeen(collection, messages.owner)
          );
      }
    };
  }

  /** Reads the words of new marks first, in slices; then everything in one turn, so that it is one state. */
  async #viewed(
    store: Store,
    partition: Buffer,
    search: IndexSearch,
    covers: Covers,
  ): Promise<ViewedPartition & { isComplete: boolean }> {
    const wanted = termsOfQuery(search.query);
    const terms = new WaitingTerms(wanted);
    const read = new Map<string, SeenWaiting | undefined>();
    const readMark = (mark: Mark): SeenWaiting | undefined => {
      const known = stampedKey(mark);
      if (read.has(known)) return read.get(known);
      const entry = this.#entries.of(store, partition, mark);
      const seen = entry === undefined ? undefined : terms.of(entry);
      read.set(known, seen);
      return seen;
    };
    const slices = new Slices();
    let before: PlacedMarks | undefined;
    let begun = noneBegun;
    const filingUntilMs = performance.now() + filingMsMax;
    for (let step = 0; ; step += 1) {
      // Searches that arrived together, or waited for the same filing, take one turn each.
      await nextTurn();
      checkWanted(search.signal);
      const isLast = step === stepsBeforeSearchMax;
      const mayFile = step < filingsBeforeSearchMax && performance.now() < filingUntilMs;
      const isCrowded = mayFile && hasMarks(store, partition, marksBeforeFiling + 1);
      if (isCrowded && (await this.work.fileUnlessMerging(store, partition))) continue;
      const marks = this.#marks(store, partition);
      const rows = readSegments(store, partition).filter(({ state }) => state === 'whole');
      const segments = rows.map((row) => ({
        catalog: this.#segments.catalog(store, partition, row),
        dead: this.#segments.dead(store, partition, row.segment),
      }));
      const placed: PlacedMarks = before?.isOf(rows) === true ? before : new PlacedMarks(rows, segments);
      before = placed;
      const isCovered = ({ name }: Mark): boolean => covers(name.kind, name.collection);
      const unknown = marks.filter((mark) => placed.isUnknown(mark) && isCovered(mark));
      if (unknown.length > lateMarksMax && !isLast) {
        await placed.placeAll(unknown, slices);
        continue;
      }
      // A change of what the search does not cover hides nothing.
      const rewritten = marks.filter((mark) =>
        isChange(mark) ? isCovered(mark) && !placed.place(mark) : true,
      );
      const covered = rewritten.filter(isCovered).slice(0, marksReadMax);
      const unread = covered.filter((mark) => !read.has(stampedKey(mark)));
      if (unread.length > lateMarksMax && !isLast) {
        for (const mark of unread) {
          readMark(mark);
          await slices.pause();
        }
        continue;
      }
      const marked = rewritten.map(({ name }) => name);
      if (wanted.beginnings.length > 0 && begun.segments !== segmentsOf(rows) && !isLast) {
        const filter = this.#filter(search, covers);
        begun = await this.#begun(store, partition, rows, { marked, filter, beginnings: wanted.beginnings });
        continue;
      }
      return {
        isComplete: !isLast && marks.length <= marksReadMax && begun.isComplete,
        segments: segments.map(({ catalog, dead }, index) => ({
          catalog,
          dead,
          blocks: this.#segments.blocks(store, partition, (rows[index] as SegmentRow).segment, wanted.terms),
          changed: placed.changes[index],
        })),
        marked,
        waiting: covered.flatMap((mark) =>
          isLast ? (read.get(stampedKey(mark)) ?? []) : (readMark(mark) ?? []),
        ),
        begun: begun.words,
      };
    }
  }

  /** Segments do not change, so their words can be read before the turn that reads everything else. */
  async #begun(
    store: Store,
    partition: Buffer,
    rows: readonly SegmentRow[],
    given: { marked: readonly EntryName[]; filter: ViewFilter; beginnings: readonly string[] },
  ): Promise<SegmentWords> {
    const segments = rows.map((row): BegunSegment => {
      const { segment } = row;
      const catalog = this.#segments.catalog(store, partition, row);
      const dead = this.#segments.dead(store, partition, segment);
      return {
        isSeen: seenPlaces({ catalog, dead }, given.marked, given.filter),
        blocksFrom: (begin) => blocksFrom(store, partition, segment, begin),
      };
    });
    return { segments: segmentsOf(rows), ...(await wordsBeginningWith(given.beginnings, segments)) };
  }

  #marks(store: Store, partition: Buffer): Mark[] {
    return partition === messagesPartition
      ? [...this.messages.marks()]
      : readMarks(store, partition, marksReadMax + 1);
  }
}
