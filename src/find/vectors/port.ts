/** What searches by meaning need from a home: vectors of documents, and the documents that wait for one. */
import type { Cancellation } from '../../core/waiting/cancellation.js';
import type { DocumentRecord } from '../../datastore/model.js';
import type { EntryFacts, RankedEntry } from '../model.js';

export interface VectorSearch {
  /** Only vectors of this space are compared: see `Embedding`. */
  readonly space: string;
  readonly vector: Float32Array;
  readonly user: string;
  readonly namespaces: readonly string[] | null;
  readonly prefix: string | null;
  readonly author: string | null;
  readonly sinceMs: number | null;
  readonly untilMs: number | null;
  /** Documents that have expired at this time are not found. */
  readonly nowMs: number;
  readonly limit: number;
  /** So many are needed now. A home that finds the nearest without comparing all may stop there. */
  readonly wanted: number;
  readonly signal?: Cancellation | undefined;
}

export interface VectorAnswer {
  /** In the order of `compareRanked`. */
  readonly entries: readonly RankedEntry[];
  /** False: there are more documents than were compared or than `limit`, or some wait for a vector. */
  readonly isComplete: boolean;
  /** False: a search that wants more may find more. */
  readonly isWhole: boolean;
}

/** A document that was written since its vector was made. */
export interface WaitingDocument {
  readonly namespace: string;
  readonly key: string;
  /** Null if the document must have no vector: it is gone, has expired, or is not to be found. */
  readonly record: DocumentRecord | null;
  /** The members of the value that its namespace embeds; null for all text. */
  readonly fields: readonly string[] | null;
  /** What the stored vector was made of; null if there is none. */
  readonly known: { readonly space: string; readonly textHash: string } | null;
  /** The home's own name of this state of the document. */
  readonly ticket: unknown;
}

/** What is stored for a document. Without a vector the embedder refused its text, or there was none. */
export interface StoredVector {
  readonly facts: Omit<EntryFacts, 'name'>;
  readonly space: string;
  readonly textHash: string;
  /** `kept`: the one that is stored already. */
  readonly vector: Float32Array | 'kept' | null;
}

export interface EmbeddedDocument {
  readonly waiting: WaitingDocument;
  /** Null removes what is stored. */
  readonly stored: StoredVector | null;
}

export interface Backlog {
  /** Documents that wait, over all users. */
  readonly documents: number;
  /** Since when the first of them has waited; null if none waits. */
  readonly oldestMs: number | null;
}

export interface VectorPort {
  /** How vectors are searched, in one sentence, for the log at start and for the status. */
  readonly method: () => Promise<string>;
  search(search: VectorSearch): Promise<VectorAnswer>;
  /**
   * Whether this server looks for waiting documents in this interval. Missing if a home has one server.
   * Servers that can embed now take other turns than those that cannot.
   */
  takeTurn?(canEmbed: boolean, intervalMs: number): Promise<boolean>;
  /** The owners of waiting documents, each once. */
  owners(): AsyncIterable<string>;
  /**
   * The next waiting documents of an owner, in the order of their names, after a page before. Null if another
   * server is at work on them. `next` is null at the end.
   */
  take(
    owner: string,
    after: string | null,
    limit: number,
  ): Promise<{ readonly documents: readonly WaitingDocument[]; readonly next: string | null } | null>;
  /** Stores the results. A document that was written meanwhile is left as it is, and still waits. */
  settle(owner: string, documents: readonly EmbeddedDocument[]): Promise<void>;
  /** Ends the work on an owner that `take` began. */
  release(owner: string): Promise<void>;
  /**
   * New vectors are of this space. If the home had another, all documents of the namespaces that ask for
   * vectors wait again. A server whose space another server has replaced takes no documents.
   */
  adopt(space: string): Promise<void>;
  backlog(): Promise<Backlog>;
}
