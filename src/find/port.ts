/**
 * What the search needs from a home: an index of documents, tasks and messages. The home writes it in the
 * transaction that changes a thing, so that the next search finds the change.
 */
import type { Cancellation } from '../core/waiting/cancellation.js';
import type { CurrentDocuments } from '../datastore/document-store/current-documents.js';
import type { RankedEntry } from './model.js';
import type { Query } from './query/query.js';
import type { Statistics } from './ranking/formula.js';
import type { RankedPlace } from './ranking/order.js';
import type { VectorPort } from './vectors/port.js';

/** What the caller may read and wants to search. A part that is null is not searched. */
export interface SearchedParts {
  readonly data: { readonly user: string; readonly namespaces: readonly string[] | null } | null;
  readonly tasks: { readonly user: string; readonly project: string | null } | null;
  /** `rooms` null: all public rooms, and all rooms that the owner has. */
  readonly messages: { readonly owner: string | null; readonly rooms: readonly string[] | null } | null;
}

export interface IndexSearch {
  readonly query: Query;
  readonly parts: SearchedParts;
  /** Only documents whose key begins with this; null for all. */
  readonly prefix: string | null;
  /** Only things that one of these wrote last: the name of an agent and its identities; null for all. */
  readonly authors: readonly string[] | null;
  /** Only things with `sinceMs` ≤ time < `untilMs`; null for no bound. */
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  /** The time of the first page. Freshness and expiry count from it. */
  readonly asOfMs: number;
  /** The numbers of the first page, so that all pages have the same scores; null on the first page. */
  readonly statistics: Statistics | null;
  /** Only results after this place. */
  readonly after: RankedPlace | null;
  readonly limit: number;
  /** Checked between steps of long work. */
  readonly signal?: Cancellation | undefined;
}

export interface IndexAnswer {
  /** In the order of `compareRanked`. */
  readonly entries: readonly RankedEntry[];
  /** Of everything that the search covers, before the prefix, the author and the times. */
  readonly statistics: Statistics;
  /** False if the search stopped at `findPostingsMax`. */
  readonly isComplete: boolean;
}

/** What is filed again: a user's things, and of those one namespace; null means all. */
export interface ReindexScope {
  readonly user: string | null;
  readonly namespace: string | null;
}

export interface ReindexReport {
  /** Documents, tasks and messages that were filed again. */
  readonly filed: number;
  /** Entries that were removed, because nothing belongs to them. */
  readonly removed: number;
}

/** Calls back with what is done, and with how much there is to do. */
export type OnReindexed = (progress: { done: number; total: number }) => void;

/** The size and the backlog of the index, for the status and for metrics. */
export interface IndexSize {
  /** Written things that wait to be filed. */
  readonly waiting: number;
  readonly segments: number;
  readonly bytes: number;
}

export interface FindPort {
  /** The documents are in a store beside the home. Called before the home starts. */
  useStore(current: CurrentDocuments): void;
  search(search: IndexSearch): Promise<IndexAnswer>;
  /** The vectors of documents, for searches by meaning. */
  readonly vectors: VectorPort;
  /**
   * Files everything in the scope again, in steps. Searches find everything meanwhile. A second call for the
   * same scope joins the first. After a crash the work continues with the next start.
   */
  reindex(scope: ReindexScope, onProgress: OnReindexed): Promise<ReindexReport>;
  size(): Promise<IndexSize>;
}
