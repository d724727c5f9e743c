/**
 * The home of one Stoa, which stores all its state: a writer, and the port of every domain. A home is a data
 * directory, or PostgreSQL with Redis.
 */
import type { CommitHome } from '../commit/home.js';
import type { Caller } from '../core/caller.js';
import type { RequestRates } from '../core/request-rates.js';
import type { Limits } from '../core/settings/limits.js';
import type { Writer } from '../core/write.js';
import type { NamespaceSettingsPort } from '../datastore/namespaces/namespace-settings.js';
import type { DataPort } from '../datastore/port.js';
import type { StoreNotes } from '../datastore/document-store/notes-port.js';
import type { FindPort } from '../find/port.js';
import type { Feed } from '../feed/port.js';
import type { McpSessionStore } from '../identity/mcp-sessions/port.js';
import type { IdentityPort } from '../identity/port.js';
import type { LocksPort } from '../locks/port.js';
import type { MessagingPort } from '../messaging/port.js';
import type { MessagingService } from '../messaging/service.js';
import type { OperationsPort } from '../operations/port.js';
import type { RegistryPort } from '../registry/port.js';
import type { Secrets } from '../secrets/secrets.js';
import type { HomeMove, MoveRole } from '../transfer/move/port.js';
import type { RecordStore } from '../transfer/port.js';
import type { WorkspacesPort } from '../workspaces/port.js';

/** One call of a database: the domain, the verb and the time it took. */
export interface BackendCall {
  domain: string;
  backend: string;
  verb: string;
  milliseconds: number;
  failed: boolean;
}

/** The options of every home. */
export interface HomeOptions {
  readonly limits: Limits;
  /** Faults that no caller waits for. */
  readonly onError: (error: unknown, about: string) => void;
  /** Called for each call of a database outside this process. */
  readonly onCall: (call: BackendCall) => void;
  /** Called with the id of each token that was revoked or has expired, when that is durable. */
  readonly onTokenRemoved: (id: string) => void;
  /** Called when tokens may have been removed without a notice: cached tokens must no longer be used. */
  readonly onTokensMissed: () => void;
  readonly sweepIntervalMs?: number | undefined;
  /** Set where a move reads or fills the home. */
  readonly move?: MoveRole | undefined;
}

/**
 * Called when a transaction begins. The returned function is called at its end, with the error if it failed.
 */
export type OnTransact = (
  facts: Readonly<Record<string, string | number>>,
) => ((failure: unknown) => void) | undefined;

export interface Home {
  readonly name: 'directory' | 'postgres';
  /** The id of this state, which exports contain. */
  readonly id: string;
  readonly writer: Writer;
  readonly identity: IdentityPort;
  readonly registry: RegistryPort;
  readonly data: DataPort;
  readonly namespaceSettings: NamespaceSettingsPort;
  readonly workspaces: WorkspacesPort;
  readonly locks: LocksPort;
  readonly messaging: MessagingPort;
  /** The search index over documents, tasks and messages. */
  readonly find: FindPort;
  readonly feed: Feed;
  readonly mcpSessions: McpSessionStore;
  /** Requests per minute of each caller (`requestsPerMinuteMax`). */
  readonly requestRates: RequestRates;
  readonly secrets: Secrets;
  readonly operations: OperationsPort;
  /** For a store of documents beside this home. */
  readonly storeNotes: StoreNotes;
  /** The operator's token, or null if only its hash is stored. */
  readonly operatorToken: string | null;
  /** The hash of the token that is valid now. Another server may have replaced the token. */
  operatorTokenHash(): string | Promise<string>;
  /**
   * Refuses a caller whose credentials no longer prove what they proved when its request was authenticated.
   * Writes check this themselves, plain sets and posts on PostgreSQL only the token; a read asks after it has waited.
   */
  checkCaller(caller: Caller): Promise<void>;
  /** False: acknowledged writes may be lost if the machine crashes. */
  readonly syncWrites: boolean;
  nowMs(): number;
  /** How messages become part of a commit. */
  commits(messaging: MessagingService): CommitHome;
  /** Every kind of record except documents, for exports and imports. */
  records(): [type: string, store: RecordStore][];
  /** The rest of the state, for a move of everything. */
  readonly move: HomeMove;
  /** Calls back when a transaction begins; the returned function is called when it ends. For spans. */
  onTransact(listener: OnTransact): void;
  /** Starts the background work: timers, sweeps, counts. */
  start(): void;
  close(): Promise<void>;
}
