/** The answers of the operator's operations, in the format of the wire. */

/** Parts of long work that differ in speed: an import checks and writes, the doctor reads records and the index. */
export type ProgressPhase = 'checking' | 'writing' | 'records' | 'index';

/** The progress of long work, or of the phase that it is in. */
export interface Progress {
  done: number;
  /** An estimate if the total is unknown. */
  total: number;
  phase?: ProgressPhase;
}

export type OnProgress = (progress: Progress) => void;

export type BackupKind = 'full' | 'incremental';

/** A backup in lists and answers. */
export interface BackupSummary {
  name: string;
  directory: string;
  kind: BackupKind;
  parent: string | null;
  store: string;
  taken_at: string;
  /** The position of the change feed after a restore of this backup. */
  position: string;
  size_bytes: number;
  with_key: boolean;
  /**
   * Why the chain of this backup cannot be restored; null if the chain is complete. The bytes are not read
   * for this.
   */
  reason: string | null;
}

export interface BackupSummaries {
  /** Oldest first. */
  items: BackupSummary[];
  /** Entries that look like a backup and cannot be read. */
  unreadable: { name: string; reason: string }[];
}

export interface CreatedBackup extends BackupSummary {
  /** The domains in other databases. */
  not_included: string[];
}

/** One backup, whether it can be restored, and why not. */
export interface BackupVerdict {
  name: string;
  /** Null if the description of the backup cannot be read. */
  kind: BackupKind | null;
  ok: boolean;
  reason: string | null;
}

/** Where a restore stops: a position of the change feed, or a moment. */
export type RestorePoint = { position: string } | { timeMs: number };

/** The position of a restore point. The part before the dash, which names the store, may be left out. */
export const restorePosition = /^(?:([0-9a-f]{12})-)?(\d{1,15}(?:\.\d{1,15})*)$/;

export interface RestoreReport {
  /** The names of the backups that were read, in order. */
  chain: string[];
  engine: string;
  entries: number;
  transactions: number;
  /** The newest sequence number of each shard in the new home. */
  seq: number[];
  /** Whether the chain contains the key ring. */
  hasKey: boolean;
}

/** `disk_full` ends when the disk has space again, `stopped` ends with a restart. */
type WritesState = 'ok' | 'disk_full' | 'stopped';

/** Whether a home can take work. */
export interface Readiness {
  /** `unavailable`: a database that everything needs does not answer. */
  writes: WritesState | 'unavailable';
  /** Parts that do not answer or refuse writes, while most requests work without them: why, by name. */
  degraded: Readonly<Record<string, string>>;
}

/** One of the servers that share a home. */
export interface LiveServer {
  readonly id: string;
  readonly host: string;
  readonly process_id: number;
  readonly version: string;
  readonly url: string | null;
  readonly uptime_seconds: number;
  /** How far the clock of the server is ahead of the database's. */
  readonly clock_ahead_ms: number;
  /** Commits of the change feed that the server did not know of, and the age of the oldest of them. */
  readonly feed_lag_commits: number;
  readonly feed_lag_ms: number;
  /** Connections to the database that are in use, of how many. */
  readonly pool_busy: number;
  readonly pool_total: number;
  /** How long ago the server noted all this. */
  readonly seen_ms_ago: number;
}

/** What a server that shares its home knows of itself. */
export interface ServerLoad {
  readonly pool: { readonly busy: number; readonly waiting: number; readonly total: number };
  /** As of the last note, a few seconds ago at most. */
  readonly feedLagCommits: number;
  readonly feedLagMs: number;
}

/** Facts about a home that need no read. */
export interface HomeFacts {
  storeId: string;
  engine: string;
  /** The data directory; null if the home is not a directory. */
  directory: string | null;
  shards: number;
  writes: WritesState;
  /** The newest number of the change feed, added up over all shards. */
  sequence: number;
  feedBytes: number;
  /** Age of the oldest timer that is due and not handled. */
  expiryBacklogMs: number;
  /** Null if only one server uses the home. */
  load: ServerLoad | null;
}

/** Rows of one kind. */
export interface FamilySize {
  entries: number;
  size_bytes: number;
  estimated: boolean;
}

export interface HomeSize {
  sizeBytes: number;
  families: ReadonlyMap<string, FamilySize>;
}

/** A stored row, for people who want to see the bytes. */
export interface InspectedEntry {
  /** In hex, as is the value. */
  key: string;
  /** Empty if the value must not be shown. */
  value: string;
  /** The content of the row as JSON; null if it cannot be decoded. */
  decoded: unknown;
}

export type DamageKind =
  /** A row that follows from another row does not exist. */
  | 'missing'
  /** A row refers to a record that does not exist. */
  | 'dangling'
  /** An index has a second row where it must have one. */
  | 'duplicate'
  /** The content of a row is not correct. */
  | 'wrong'
  /** A row cannot be decoded. */
  | 'unreadable';

/** One damaged or missing row. */
export interface Finding {
  family: string;
  /** The key of the row, in hex. */
  key: string;
  kind: DamageKind;
  /** One sentence. */
  problem: string;
  /** What a repair does, or null if only a backup helps. */
  repair: string | null;
}

export interface ExaminedFinding extends Finding {
  shard: number;
  repaired: boolean;
}

export interface Examination {
  found: number;
  repaired: number;
  remaining: number;
  /** The first findings; all are counted. */
  findings: ExaminedFinding[];
}
