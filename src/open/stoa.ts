/** An open Stoa, and what it is opened with. */
import type { CommitService } from '../commit/service.js';
import type { Limits } from '../core/settings/limits.js';
import type { EngineName, StoreConfig } from '../core/settings/store-config.js';
import type { NamespaceSettingsService } from '../datastore/namespaces/namespace-settings.js';
import type { DataService } from '../datastore/service.js';
import type { ChangesService } from '../feed/service.js';
import type { FindService } from '../find/service.js';
import type { Embedder } from '../find/vectors/embedder.js';
import type { VectorsService } from '../find/vectors/service.js';
import type { BackupSchedule } from '../homes/directory/kernel/backup/schedule.js';
import type { GroupFacts } from '../homes/directory/kernel/store-options.js';
import type { BackendCall, Home } from '../homes/home.js';
import type { IdentityService } from '../identity/service.js';
import type { LocksService } from '../locks/service.js';
import type { IdentityLinks } from '../messaging/identities/links.js';
import type { MessagingService, MessagingSettings } from '../messaging/service.js';
import type { OperationsService } from '../operations/service.js';
import type { RegistryService } from '../registry/service.js';
import type { Secrets } from '../secrets/secrets.js';
import type { MoveRole } from '../transfer/move/port.js';
import type { TransferService } from '../transfer/service.js';
import type { WorkspacesService } from '../workspaces/service.js';

export interface StoaOptions {
  /** The data directory, which is created if it does not exist. Not used with `postgres`. */
  data?: string | undefined;
  /** The URL of a PostgreSQL that keeps everything instead of a data directory. */
  postgres?: string | null | undefined;
  /** The Redis beside it; several URLs of a cluster are separated by commas. */
  redis?: string | null | undefined;
  engine?: EngineName | undefined;
  shards?: number | undefined;
  /** The URL of a CouchDB, DynamoDB or Firestore that keeps the documents beside the home. */
  datastore?: string | null | undefined;
  /** Keys that encrypt secrets, instead of the key file in the data directory. Required with PostgreSQL. */
  secretKeys?: string | null | undefined;
  /** The operator's token on PostgreSQL; made at the first start unless given. */
  operatorToken?: string | null | undefined;
  storeConfig?: Partial<Omit<StoreConfig, 'data_dir'>> | undefined;
  limits?: Partial<Limits> | undefined;
  /** Turns texts into vectors, for searches by meaning; without it, searches are by words only. */
  embedder?: Embedder | undefined;
  /** Settings of messaging: exempt addresses, trusted proxies, the admin. */
  messagingSettings?: Partial<MessagingSettings> | undefined;
  /** Milliseconds since 1970; tests pass another clock. */
  clock?: (() => number) | undefined;
  /** Faults that no caller waits for. */
  onError?: ((error: unknown, about: string) => void) | undefined;
  sweepIntervalMs?: number | undefined;
  /** Set where a move reads or fills the home: nothing is swept and no timer runs. */
  move?: MoveRole | undefined;
  /** Scheduled backups; none by default. */
  backups?: BackupSchedule | undefined;
}

export interface Stoa {
  readonly limits: Limits;
  readonly home: Home;
  readonly identity: IdentityService;
  readonly registry: RegistryService;
  readonly data: DataService;
  /** How the search treats the documents of each namespace. */
  readonly namespaceSettings: NamespaceSettingsService;
  readonly workspaces: WorkspacesService;
  readonly locks: LocksService;
  readonly messaging: MessagingService;
  /** Which identity speaks for which agent. */
  readonly links: IdentityLinks;
  readonly secrets: Secrets;
  /** A token of the operator. Where the home keeps only a hash of it, one for this process alone. */
  readonly operatorToken: string;
  readonly changes: ChangesService;
  /** The search over documents, tasks and messages. */
  readonly find: FindService;
  /** The background work that gives documents vectors. */
  readonly vectors: VectorsService;
  readonly commit: CommitService;
  /** Status, repairs, raw rows and backups, for the operator. */
  readonly operations: OperationsService;
  /** Export and import of everything, for the operator. */
  readonly transfer: TransferService;
  /** Calls back for each group of transactions that became durable. Returns a function that stops it. */
  onGroup(listener: (group: GroupFacts) => void): () => void;
  /** Calls back for each call of a database outside this process. Returns a function that stops it. */
  onBackendCall(listener: (call: BackendCall) => void): () => void;
  /** Faults that no caller waits for go here. */
  onError(error: unknown, about: string): void;
  close(): Promise<void>;
}
