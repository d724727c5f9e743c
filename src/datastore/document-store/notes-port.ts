/**
 * What the home stores for a store that cannot take part in its transactions: notes of writes, changes, words and
 * answers.
 */
import type { Caller } from '../../core/caller.js';
import type { Change } from '../../core/change.js';
import type { Idempotency } from '../../core/idempotency/idempotency.js';
import type { Scope } from '../model.js';
import type { CurrentDocument, DocumentName } from './current-documents.js';

/** A document that a write may change. */
export interface NotedDocument extends DocumentName {
  readonly isDelete: boolean;
}

/** What a write may change: documents by name, or the documents of a namespace after a key. */
export interface StoreChanges {
  readonly documents: readonly NotedDocument[];
  readonly cleared: { readonly scope: Scope; readonly after: string | null } | null;
  /** A refused write may have changed some of them. */
  readonly mayBePartial: boolean;
}

/**
 * Names what a write of the store may change. It is durable before the store gets the write, and goes with the record of
 * the write in the home. So a server that is killed in between leaves it, and so does an answer of the store that is lost.
 */
export interface WriteNote extends Omit<StoreChanges, 'mayBePartial'> {
  readonly id: string;
  /** Another one for each run of a server. */
  readonly server: string;
  readonly agent: string | null;
}

/** The users whose documents the note names. */
export function usersOf({ documents, cleared }: WriteNote): Set<string> {
  return new Set([...documents, ...(cleared === null ? [] : [cleared.scope])].map(({ user }) => user));
}

/** The answer of a request, to be stored under its key. */
export interface KeptResults {
  readonly idempotency: Idempotency;
  readonly results: readonly unknown[];
}

/** What the home records about a write that the store has carried out, in one transaction. */
export interface EndedWrite {
  readonly changes?: readonly Change[];
  readonly kept?: KeptResults | null;
  /** Documents as they were just read, for their words. */
  readonly documents?: readonly CurrentDocument[];
  /** The note of the write; null for documents that are read again for another reason. */
  readonly note: WriteNote | null;
  /** The note goes. */
  readonly isLast: boolean;
}

/** Another server filed one of the documents after it was read here: it must be read again. */
export class OutdatedRead extends Error {
  constructor() {
    super('Another server wrote one of the documents at the same time.');
  }
}

export interface StoreNotes {
  /** True if other servers have notes here too. */
  readonly isShared: boolean;
  /** The stored answer for the key, or undefined. */
  answered(caller: Caller, idempotency: Idempotency): Promise<unknown[] | undefined>;
  /**
   * Called right before a write of the store. Refuses a caller whose lease has passed to another holder, or whose token
   * was revoked. Returns the stored answer for the key; otherwise it records the note and that the request begins.
   * Throws if an earlier request with the key began and did not end.
   */
  begin(
    caller: Caller,
    idempotency: Idempotency | null,
    note: WriteNote | null,
  ): Promise<unknown[] | undefined>;
  /** Throws `OutdatedRead` if another server filed one of the documents since `begin` or `readAgain`. */
  end(caller: Pick<Caller, 'user' | 'agent'>, ended: EndedWrite): Promise<void>;
  /** The request was refused and changed nothing: its key is free again, and its note goes. */
  abandon(caller: Caller, idempotency: Idempotency | null, note: WriteNote | null): Promise<void>;
  /** The documents of the note are read again now. */
  readAgain(note: WriteNote): Promise<void>;
  /** The writes still run. */
  renew(notes: readonly WriteNote[]): Promise<void>;
  /** Some notes that were made and last renewed so long ago. Of several servers one gets them. */
  takeLeft(ageMs: number): Promise<WriteNote[]>;
  countNotes(): Promise<number>;
  /** The next keys after `after`, up to `through`, of documents whose words the home has. */
  wordKeys(scope: Scope, after: string | null, through: string | null): Promise<string[]>;
}
