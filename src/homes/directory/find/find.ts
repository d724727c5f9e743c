/** The search index of a data directory: answers searches, and files in the background what was written. */
import type { Limits } from '../../../core/settings/limits.js';
import type { CurrentDocuments } from '../../../datastore/document-store/current-documents.js';
import type { Scope } from '../../../datastore/model.js';
import { type FindPort, type IndexSearch, type SearchedParts } from '../../../find/port.js';
import { searchView } from '../../../find/ranking/search-view.js';
import { IndexView, type ViewFilter } from '../../../find/segments/view.js';
import { userKey } from '../../../identity/user-key.js';
import type { ExaminedFinding, OnProgress } from '../../../operations/model.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Store } from '../kernel/store.js';
import { FilingWork } from './filing/work.js';
import { Filing } from './filing/filing.js';
import { examineIndex } from './doctor.js';
import { MarkedEntries } from './filing/marked-entries.js';
import { type Mark, readMarks } from './filing/marks.js';
import { type Covers, type Gathered, Gathering, marksReadMax } from './gather.js';
import { MessageIndex } from './message-index.js';
import { Reindexing } from './reindex/reindex.js';
import { messagesPartition } from './rows.js';
import { SegmentReader } from './segments.js';
import { indexSize } from './size.js';
import type { EntrySources } from './sources.js';
import { expireStoreEntries } from './store-entries.js';
import { DirectoryVectors } from './vectors/vectors.js';

export interface DirectoryFindOptions {
  readonly kernel: Kernel;
  readonly sources: EntrySources;
  /** Whether documents of the namespace are found by their words. */
  readonly isIndexed: (scope: Scope) => boolean;
  /** The rooms that a search with this owner covers. */
  readonly isRoomSeen: (roomId: string, owner: string | null) => boolean;
  readonly onError: (error: unknown, about: string) => void;
}

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
    const partitions: Gathered[] = [];
    if (user !== undefined) {
      const partition = userKey(user);
      partitions.push(await this.#gathered(this.#kernel.storeOf(partition), partition, search, covers));
    }
    if (messages !== null)
      partitions.push(await this.#gathered(this.#kernel.root, messagesPartition, search, covers));
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

  #gathered(store: Store, partition: Buffer, search: IndexSearch, covers: Covers): Promise<Gathered> {
    const gathering = new Gathering({
      store,
      partition,
      search,
      covers,
      filter: () => this.#filter(search, covers),
      marks: () => this.#marks(store, partition),
      segments: this.#segments,
      entries: this.#entries,
      work: this.work,
    });
    return gathering.run();
  }

  #marks(store: Store, partition: Buffer): Mark[] {
    return partition === messagesPartition
      ? [...this.messages.marks()]
      : readMarks(store, partition, marksReadMax + 1);
  }
}
