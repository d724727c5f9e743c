/** Where all state of one Stoa lives: a writer, and the port of every domain. A data directory is one, PostgreSQL with Redis the other. */
import type { CommitHome } from '../commit/home.js';
import type { Limits } from '../core/settings/limits.js';
import type { Writer } from '../core/write.js';
import type { DataPort } from '../datastore/port.js';
import type { StoreNotes } from '../datastore/store-documents.js';
import type { Feed } from '../feed/port.js';
import type { McpSessionStore } from '../identity/mcp-sessions/port.js';
import type { IdentityPort } from '../identity/port.js';
import type { MessagingPort } from '../messaging/port.js';
import type { MessagingService } from '../messaging/service.js';
import type { OperationsPort } from '../operations/port.js';
import type { RegistryPort } from '../registry/port.js';
import type { Secrets } from '../secrets/secrets.js';
import type { HomeMove, MoveRole } from '../transfer/move/port.js';
import type { RecordStore } from '../transfer/port.js';
import type { WorkspacesPort } from '../workspaces/port.js';

/** Which database took how long for which verb of which domain. */
export interface BackendCall {
  domain: string;
  backend: string;
  verb: string;
  milliseconds: number;
  failed: boolean;
}

/** What every home is opened with. */
export interface HomeOptions {
  readonly limits: Limits;
  /** Faults that no caller waits for. */
  readonly onError: (error: unknown, about: string) => void;
  /** Called for each call of a database outside this process. */
  readonly onCall: (call: BackendCall) => void;
  /** Called with the id of each token that was revoked or has expired, once that is durable. */
  readonly onTokenRemoved: (id: string) => void;
  /** Called when tokens may have been removed without a notice: nothing remembered of tokens counts any more. */
  readonly onTokensMissed: () => void;
  readonly sweepIntervalMs?: number | undefined;
  /** Set where a move reads or fills the home. */
  readonly move?: MoveRole | undefined;
}

/** Gets facts about the transaction, and returns what is called at its end, with the error of one that failed. */
export type OnTransact = (
  facts: Readonly<Record<string, string | number>>,
) => ((failure: unknown) => void) | undefined;

export interface Home {
  readonly name: 'directory' | 'postgres';
  /** Names this state: exports carry it. */
  readonly id: string;
  readonly writer: Writer;
  readonly identity: IdentityPort;
  readonly registry: RegistryPort;
  readonly data: DataPort;
  readonly workspaces: WorkspacesPort;
  readonly messaging: MessagingPort;
  readonly feed: Feed;
  readonly mcpSessions: McpSessionStore;
  readonly secrets: Secrets;
  readonly operations: OperationsPort;
  /** For a store of documents beside this home. */
  readonly storeNotes: StoreNotes;
  /** The operator's token, or null where only its hash is kept. */
  readonly operatorToken: string | null;
  readonly operatorTokenHash: string;
  /** False: acknowledged writes may be lost with the machine. */
  readonly syncWrites: boolean;
  nowMs(): number;
  /** Leases of agents and tasks that are live. */
  liveLeases(): number | Promise<number>;
  /** How messages go into a commit. */
  commits(messaging: MessagingService): CommitHome;
  /** Every kind of record but documents, for exports and imports. */
  records(): [type: string, store: RecordStore][];
  /** The rest, for a move of everything. */
  readonly move: HomeMove;
  /** Calls back when a transaction begins; what that returns is called when it ends. For spans. */
  onTransact(listener: OnTransact): void;
  /** Begins the work that goes on beside requests: timers, sweeps, counts. */
  start(): void;
  close(): Promise<void>;
}
