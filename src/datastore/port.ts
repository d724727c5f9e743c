/**
 * What the data store needs from storage: the port of a home, or a store beside the home. It contains no
 * rules.
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
  /**
   * The largest JSON text of a value that the database can store, in bytes. Null if the database has no
   * limit.
   */
  readonly valueBytesMax: number | null;
  /** A counted read is written to the database within this time. */
  readonly accessFlushMs: number;
  /**
   * `recordAccess` reports the exact moment when recorded reads become visible. Other backends make them
   * visible some time before `recordAccess` resolves.
   */
  readonly reportsAccessVisible: boolean;
  /** True if `_id` is the primary key. Documents of two owners can then have the same id. */
  readonly sharedIds: boolean;
  /**
   * True if lists come from an index that is updated a moment after the write. Reads by key are always
   * current.
   */
  readonly listsLag: boolean;
}

/**
 * The version that the document must have. 0: it must not exist. `any`: it must exist. Null: no condition.
 */
export type ExpectedVersion = number | 'any' | null;

/** The part of a document that a plain `get` needs. */
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
  /** Whether searches for words find it. Undefined leaves it unchanged; a new document is found. */
  readonly index?: boolean | undefined;
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

/**
 * Results in the order of the batch. If batches are not atomic, a key that failed has an error instead of a
 * result.
 */
export interface BatchResult {
  sets: (WriteResult | Error)[];
  /** True if the document existed. */
  deletes: (boolean | Error)[];
}

/** A batch, and the keys that are read after its writes. */
export interface DataBatch extends WriteBatch {
  readonly gets: readonly string[];
}

export interface DataBatchResult extends BatchResult {
  /**
   * The documents of the keys in `gets`, without missing ones. They may end after the one with which the values
   * exceed `dataBatchBytesMax`: the caller then refuses the batch.
   */
  read: DocumentRecord[];
}

/** The result of a batch with one write. Throws the error if the write failed. */
export function succeeded<T>(outcome: T | Error | undefined): T {
  if (outcome === undefined)
    throw new StoaError('internal', 'The backend returned fewer results than requests.');
  if (outcome instanceof Error) throw outcome;
  return outcome;
}

export interface KeyRange {
  readonly prefix: string;
  /** The last key of the previous page. Null: begin at the first key. */
  readonly after: string | null;
  readonly limit: number;
  /** Checked between the requests of a page that takes several. */
  readonly signal?: Cancellation | undefined;
}

/** Reads of one document by agents, added up. */
export interface AccessRead {
  readonly scope: Scope;
  readonly key: string;
  readonly count: number;
  /** The last reader, and the time. Null if this process wrote the document after that read. */
  readonly last: { readonly agent: string; readonly at: string } | null;
  /** All agents that read the document. */
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
  /** The position of the next page, in the backend's format. Null at the end. */
  after: string | null;
}

/** Returns what to write, given the current document. */
export type Decide = (current: DocumentRecord | undefined) => DocumentWrite;

/**
 * What homes and stores have in common. Reads and lists return only documents that have not expired. Lists
 * are in code-point order of the keys, from an index; fewer items than `limit` mean the end. Keys in one call
 * are distinct. The caller has checked names and values.
 */
export interface DocumentReads {
  readonly capabilities: DataCapabilities;
  get(scope: Scope, key: string): MaybePromise<DocumentRecord | undefined>;
  /** In the order of the keys, undefined for a missing document. */
  getMany(scope: Scope, keys: readonly string[]): MaybePromise<(DocumentRecord | undefined)[]>;
  listKeys(scope: Scope, range: KeyRange): MaybePromise<KeySummary[]>;
  listDocuments(scope: Scope, range: KeyRange): MaybePromise<DocumentRecord[]>;
  /**
   * In code-point order; an empty list is the end. `signal` is checked between requests if several are
   * needed.
   */
  listNamespaces(
    user: string,
    after: string | null,
    limit: number,
    signal?: Cancellation,
  ): MaybePromise<NamespaceSummary[]>;
  /** Every document of every user that has not expired, in an order in which a later call can continue. */
  exportPage(after: string | null, limit: number): Promise<ExportPage>;
  /** The namespaces of `names` that have documents, in the same order. */
  describeNamespaces(
    user: string,
    names: readonly string[],
    signal?: Cancellation,
  ): MaybePromise<NamespaceSummary[]>;
  /**
   * Adds up counted reads of any users. Changes nothing else, and skips documents that no longer exist. It
   * fails as a whole, or with `PartlyRecorded` where the other reads were added. A backend with
   * `reportsAccessVisible` calls `onVisible` before any reader can see the new counts.
   */
  recordAccess(
    reads: readonly AccessRead[],
    onVisible?: (reads: readonly AccessRead[]) => void,
  ): Promise<void>;
  /**
   * Removes expired documents and returns how many. Missing if the database removes expired documents itself.
   */
  sweepExpired?(limit: number): Promise<number>;
  /** False if another server sweeps in this interval. Missing if only one server uses the documents. */
  takeSweepTurn?(intervalMs: number): Promise<boolean>;
  close(): Promise<void>;
}

/** The documents of a home: writes are steps. */
export interface DataPort extends DocumentReads {
  /** Only the value, if reading it is cheaper than reading the whole document. */
  getValue(scope: Scope, key: string): MaybePromise<StoredValue | undefined>;
  /** With `bytesMax` it may end early, after the document with which the values exceed so many bytes. */
  getMany(
    scope: Scope,
    keys: readonly string[],
    bytesMax?: number,
  ): MaybePromise<(DocumentRecord | undefined)[]>;
  write(scope: Scope, batch: DataBatch): Step<DataBatchResult>;
  modify(scope: Scope, key: string, decide: Decide): Step<WriteResult>;
  /**
   * Removes the next documents of a namespace. The last step of a clear forgets its agents, unless documents were
   * written behind the steps.
   */
  clear(scope: Scope, after: string | null, limit: number): Step<ClearStep>;
  /**
   * Writes documents unchanged, over existing ones. Returns one step for each group that can share a
   * transaction. With `isCounted` the caller has checked the quotas.
   */
  restore(documents: readonly DocumentRecord[], options?: { readonly isCounted?: boolean }): Step<void>[];
  /** Refuses the write unless the document has this version. 0: it must not exist. */
  requireVersion(scope: Scope, key: string, version: number): Step<void>;
  /** What a user has in total, including answers stored under an Idempotency-Key. */
  usage(user: string): MaybePromise<Usage>;
  /** The documents whose id belongs to a document of another owner. */
  heldByOthers(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]>;
}

/** A port and the writer that runs its steps. */
export interface Documents {
  readonly port: DataPort;
  readonly writer: Writer;
  /** Work of a store beside the home that no caller asks for. */
  readonly background?: { start(): void; close(): Promise<void> } | undefined;
}

/** A database beside the home that holds documents and nothing else: CouchDB, DynamoDB, Firestore, memory. */
export interface DocumentStore extends DocumentReads {
  write(scope: Scope, batch: WriteBatch): Promise<BatchResult>;
  /** Removes the next documents of a namespace. Without documents, the last step forgets its agents. */
  clearStep(scope: Scope, after: string | null, limit: number): Promise<ClearStep>;
  /** Writes documents unchanged, over existing ones. */
  restore(documents: readonly DocumentRecord[]): Promise<void>;
  /** The documents whose id belongs to a document of another owner. Missing if that cannot happen. */
  heldByOthers?(documents: readonly DocumentRecord[]): Promise<DocumentRecord[]>;
}
