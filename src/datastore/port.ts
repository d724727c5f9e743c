/**
 * What the data store needs of storage: the port of a home, or a store beside the home. The rules are not in
 * it.
 */
import type { Cancellation } from '../core/waiting/cancellation.js';
import { StoaError } from '../core/errors.js';
import type { Step, Writer } from '../core/write.js';
import type { DocumentRecord, JsonObject, KeySummary, NamespaceSummary, Scope } from './model.js';
import type { Usage } from './quota.js';

export type MaybePromise<T> = T | Promise<T>;

/** What a backend supports. Other requests are refused at start or at the call, never weakened silently. */
export interface DataCapabilities {
  readonly backend: string;
  /** A batch is written as a whole or not at all. Otherwise each key has its own result. */
  readonly atomicBatches: boolean;
  /** Whether a change reaches the feed in the commit that makes it, or right after it. */
  readonly changes: 'same-commit' | 'after-write';
  /** Quotas of documents, bytes and namespaces can be kept. */
  readonly quotas: boolean;
  /** Bytes of a value's JSON that the database itself can hold; null where it sets no bound. */
  readonly valueBytesMax: number | null;
  /** Within this time a counted read reaches the database. */
  readonly accessFlushMs: number;
  /**
   * `recordAccess` says at the very moment when recorded reads become visible; elsewhere that is some time
   * before it resolves.
   */
  readonly tellsAccessVisible: boolean;
  /** True where `_id` is the primary key, so that two owners could meet under one. */
  readonly sharedIds: boolean;
  /** True where lists come from an index that follows the writes a moment later; reads by key never do. */
  readonly listsLag?: boolean;
}

/**
 * The version that must be current; 0 means that there must be none, `any` that there must be one; null does
 * not ask.
 */
export type ExpectedVersion = number | 'any' | null;

/** As much of a document as a plain `get` needs. */
export type StoredValue = Pick<DocumentRecord, 'valueJson' | 'accessCount'>;

/** One write of a document, checked and encoded. */
export interface DocumentWrite {
  readonly key: string;
  readonly valueJson: string;
  /** Merged into the stored metadata; null leaves it unchanged. */
  readonly metadata: JsonObject | null;
  readonly agent: string | null;
  readonly ifVersion: ExpectedVersion;
  /** When the document expires; null means never; undefined leaves the expiry unchanged. */
  readonly expiresAt: string | null | undefined;
}

export interface DocumentDelete {
  readonly key: string;
  readonly ifVersion: ExpectedVersion;
}

export interface WriteBatch {
  readonly sets: readonly DocumentWrite[];
  readonly deletes: readonly DocumentDelete[];
}

export interface WriteResult {
  key: string;
  version: number;
  sizeBytes: number;
  updatedAt: string;
  created: boolean;
}

/** Results in the order of the batch. An error takes the place of a result where batches are not atomic. */
export interface BatchResult {
  sets: (WriteResult | Error)[];
  /** True where the document was there. */
  deletes: (boolean | Error)[];
}

/** A batch, and the keys that are read after its writes. */
export interface DataBatch extends WriteBatch {
  readonly gets: readonly string[];
}

export interface DataBatchResult extends BatchResult {
  /** The documents under `gets`; those that do not exist are left out. */
  read: DocumentRecord[];
}

/** The result of a batch with one write. Throws its error where it failed. */
export function succeeded<T>(outcome: T | Error | undefined): T {
  if (outcome === undefined)
    throw new StoaError('internal', 'The backend returned fewer results than requests.');
  if (outcome instanceof Error) throw outcome;
  return outcome;
}

export interface KeyRange {
  readonly prefix: string;
  /** The last key of the page before; null begins at the first. */
  readonly after: string | null;
  readonly limit: number;
  /** Looked at between requests where one page takes several. */
  readonly signal?: Cancellation | undefined;
}

/** Reads of one document by agents, added up. */
export interface AccessRead {
  readonly scope: Scope;
  readonly key: string;
  readonly count: number;
  /** The last reader and when; null after a write of the same process that came later. */
  readonly last: { readonly agent: string; readonly at: string } | null;
  /** Every agent that was among the readers. */
  readonly agents: readonly string[];
}

/** Some reads could not be counted. Only these may be sent again; the others were counted. */
export class PartlyRecorded extends Error {
  constructor(
    readonly unrecorded: readonly AccessRead[],
    cause: unknown,
  ) {
    super(`The reads of ${unrecorded.length} documents could not be counted yet.`, { cause });
  }
}

export interface ClearStep {
  deleted: number;
  /** The last key that the step read; null when the namespace has no more keys. */
  after: string | null;
}

export interface ExportPage {
  documents: DocumentRecord[];
  /** Where the next page begins, in the backend's own format; null at the end. */
  after: string | null;
}

/** Decides in one look at the current document what to write instead. */
export type Decide = (current: DocumentRecord | undefined) => DocumentWrite;

/**
 * What homes and stores have in common. Reads and lists answer only documents that have not expired. Lists
 * are in code-point order of the keys, from an index; fewer items than `limit` mean the end.
 * Keys in one call are distinct. Names and values are checked before they get here.
 */
export interface DocumentReads {
  readonly capabilities: DataCapabilities;
  get(scope: Scope, key: string): MaybePromise<DocumentRecord | undefined>;
  getMany(scope: Scope, keys: readonly string[]): MaybePromise<(DocumentRecord | undefined)[]>;
  listKeys(scope: Scope, range: KeyRange): MaybePromise<KeySummary[]>;
  listDocuments(scope: Scope, range: KeyRange): MaybePromise<DocumentRecord[]>;
  /**
   * In code-point order; an empty answer is the end. `signal` is checked between requests if several are
   * needed.
   */
  listNamespaces(
    user: string,
    after: string | null,
    limit: number,
    signal?: Cancellation,
  ): MaybePromise<NamespaceSummary[]>;
  /** Every document of every user that has not expired, in an order that a later call can continue. */
  exportPage(after: string | null, limit: number): Promise<ExportPage>;
  /** Those of the names that have documents, in the order of the names. */
  describeNamespaces(
    user: string,
    names: readonly string[],
    signal?: Cancellation,
  ): MaybePromise<NamespaceSummary[]>;
  /**
   * Adds up counted reads of any users. Changes nothing else, and skips documents that no longer exist. It
   * fails as a whole, or with `PartlyRecorded` where the other reads were added. A backend with
   * `tellsAccessVisible` calls `onVisible` before any reader can see the new counts.
   */
  recordAccess(
    reads: readonly AccessRead[],
    onVisible?: (reads: readonly AccessRead[]) => void,
  ): Promise<void>;
  /** Removes expired documents and returns how many. Missing where the database does it. */
  sweepExpired?(limit: number): Promise<number>;
  /** False where another server sweeps in this interval. Missing where one server has the documents to itself. */
  takeSweepTurn?(intervalMs: number): Promise<boolean>;
  close(): Promise<void>;
}

/** The documents of a home: writes are steps. */
export interface DataPort extends DocumentReads {
  /** Only the value, where that is cheaper than the whole document. */
  getValue(scope: Scope, key: string): MaybePromise<StoredValue | undefined>;
  write(scope: Scope, batch: DataBatch): Step<DataBatchResult>;
  modify(scope: Scope, key: string, decide: Decide): Step<WriteResult>;
  /** Removes the next documents of a namespace; the last step of a clear forgets its agents. */
  clear(scope: Scope, after: string | null, limit: number): Step<ClearStep>;
  /**
   * Writes documents unchanged, over existing ones. Returns one step for each group that can share a
   * transaction. With `isCounted` the caller has checked the quotas.
   */
  restore(documents: readonly DocumentRecord[], options?: { readonly isCounted?: boolean }): Step<void>[];
  /** Refuses the write unless the document has this version; 0 means that there must be none. */
  requireVersion(scope: Scope, key: string, version: number): Step<void>;
  /** What a user has in all, answers kept under an Idempotency-Key among it. */
  usage(user: string): MaybePromise<Usage>;
  /** Those whose id is another owner's document already. */
  heldByOthers(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]>;
}

/** A port and the writer that runs its steps. */
export interface Documents {
  readonly port: DataPort;
  readonly writer: Writer;
}

/** A database beside the home that holds documents and nothing else: CouchDB, DynamoDB, Firestore, memory. */
export interface DocumentStore extends DocumentReads {
  write(scope: Scope, batch: WriteBatch): Promise<BatchResult>;
  /** Removes the next documents of a namespace; the last step forgets its agents. */
  clearStep(scope: Scope, after: string | null, limit: number): Promise<ClearStep>;
  /** Writes documents unchanged, over existing ones. */
  restore(documents: readonly DocumentRecord[]): Promise<void>;
  /** Those whose id is another owner's document already; missing where that cannot be. */
  heldByOthers?(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]>;
}
