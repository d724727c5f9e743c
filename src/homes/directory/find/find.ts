/** The search index of a data directory: answers searches, and files in the background what was written. */
import { LRUCache } from 'lru-cache';
import type { Limits } from '../../../core/settings/limits.js';
import { Slices } from '../../../core/waiting/yielding.js';
import type { FindKind } from '../../../find/model.js';
import type { FindCapabilities, FindPort, IndexAnswer, IndexSearch } from '../../../find/port.js';
import { termsOfQuery } from '../../../find/query/query.js';
import { searchView } from '../../../find/ranking/search-view.js';
import type { WaitingEntry } from '../../../find/segments/segment.js';
import { IndexView, type ViewedPartition } from '../../../find/segments/view.js';
import { userKey } from '../../../identity/user-key.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import { FilingWork } from './filing-work.js';
import { Filing } from './filing.js';
import { type Mark, readMarks } from './marks.js';
import { messagesPartition } from './rows.js';
import { SegmentReader, readSegments } from './segments.js';
import type { EntrySources } from './sources.js';

export interface DirectoryFindOptions {
  readonly kernel: Kernel;
  readonly sources: EntrySources;
  /** The rooms that a search with this owner covers. */
  readonly isRoomSeen: (roomId: string, owner: string | null) => boolean;
  readonly onError: (error: unknown, about: string) => void;
}

/** A search reads all marks of a partition. Writes that come faster than the filing may leave many. */
const marksReadMax = 20_000;

export class DirectoryFind implements FindPort {
  readonly capabilities: FindCapabilities = { documents: 'same-commit', needsReindex: false };
  readonly work: FilingWork;
  readonly #kernel: Kernel;
  readonly #limits: Limits;
  readonly #sources: EntrySources;
  readonly #isRoomSeen: DirectoryFindOptions['isRoomSeen'];
  readonly #segments: SegmentReader;
  /**
   * The entries of marked things, by mark and stamp. Without it every search would read the words of all of them
   * again.
   */
  readonly #waiting: LRUCache<string, { entry: WaitingEntry | undefined }>;

  constructor({ kernel, sources, isRoomSeen, onError }: DirectoryFindOptions) {
    const { limits } = kernel;
    this.#kernel = kernel;
    this.#limits = limits;
    this.#sources = sources;
    this.#isRoomSeen = isRoomSeen;
    this.#segments = new SegmentReader(limits.findCacheBytesMax);
    this.#waiting = new LRUCache({
      maxSize: Math.max(1, limits.findCacheBytesMax),
      sizeCalculation: ({ entry }) => 200 + 3 * (entry?.packed.length ?? 0),
    });
    const filing = new Filing({ segments: this.#segments, sources, limits });
    this.work = new FilingWork({ kernel, filing, limits, onError });
  }

  async search(search: IndexSearch): Promise<IndexAnswer> {
    const { data, tasks, messages } = search.parts;
    const user = data?.user ?? tasks?.user;
    const partitions: ViewedPartition[] = [];
    if (user !== undefined) {
      const partition = userKey(user);
      partitions.push(await this.#viewed(this.#kernel.storeOf(partition), partition, search));
    }
    if (messages !== null) partitions.push(await this.#viewed(this.#kernel.root, messagesPartition, search));
    const view = new IndexView(partitions, {
      hasCollection: (kind, collection) => this.#isSearched(search, kind, collection),
      // A later page must not count what expired since the first one, and must not show it either.
      nowMs: Math.max(search.asOfMs, this.#kernel.nowMs()),
    });
    return searchView(view, search, this.#limits);
  }

  #isSearched({ parts }: IndexSearch, kind: FindKind, collection: string): boolean {
    const { data, tasks, messages } = parts;
    switch (kind) {
      case 'data':
        return data !== null && (data.namespaces === null || data.namespaces.includes(collection));
      case 'tasks':
        return tasks !== null && (tasks.project === null || tasks.project === collection);
      default:
        return (
          messages !== null &&
          (messages.rooms === null || messages.rooms.includes(collection)) &&
          this.#isRoomSeen(collection, messages.owner)
        );
    }
  }

  /** Reads the words of new marks first, in slices; then everything in one turn, so that it is one state. */
  async #viewed(store: Store, partition: Buffer, search: IndexSearch): Promise<ViewedPartition> {
    const wanted = termsOfQuery(search.query);
    const slices = new Slices();
    for (const mark of readMarks(store, partition, marksReadMax)) {
      if (this.#isSearched(search, mark.name.kind, mark.name.collection))
        this.#entryOf(store, partition, mark);
      await slices.pause();
    }
    const marks = readMarks(store, partition, marksReadMax);
    return {
      segments: readSegments(store, partition)
        .filter(({ state }) => state === 'whole')
        .map((row) => this.#segments.view(store, partition, row, wanted)),
      marked: marks.map(({ name }) => name),
      waiting: marks.flatMap((mark) =>
        this.#isSearched(search, mark.name.kind, mark.name.collection)
          ? (this.#entryOf(store, partition, mark) ?? [])
          : [],
      ),
    };
  }

  #entryOf(store: Store, partition: Buffer, { key, name, stamp }: Mark): WaitingEntry | undefined {
    const cacheKey = `${key.toString('latin1')}${stamp.toString('latin1')}`;
    let known = this.#waiting.get(cacheKey);
    if (known === undefined) {
      known = { entry: this.#sources[name.kind](store, partition, name, store.nowMs()) };
      this.#waiting.set(cacheKey, known);
    }
    return known.entry;
  }
}
