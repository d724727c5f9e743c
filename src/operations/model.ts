/** What the operations of an operator answer, as it is on the wire. */

/** How far long work is. */
export interface Progress {
  done: number;
  /** An estimate where the home can only estimate. */
  total: number;
}

export type OnProgress = (progress: Progress) => void;

export type BackupKind = 'full' | 'incremental';

/** What lists and answers say of a backup. */
export interface BackupSummary {
  name: string;
  directory: string;
  kind: BackupKind;
  parent: string | null;
  store: string;
  taken_at: string;
  /** The position of the change feed that a restore of it reaches. */
  position: string;
  size_bytes: number;
  with_key: boolean;
  /** Why its chain cannot be restored; null where no link is missing. The bytes are not read for this. */
  reason: string | null;
}

export interface BackupSummaries {
  /** Oldest first. */
  items: BackupSummary[];
  /** What looks like a backup and cannot be read. */
  unreadable: { name: string; reason: string }[];
}

export interface CreatedBackup extends BackupSummary {
  /** The domains that other databases keep. */
  not_included: string[];
}

/** One backup, whether it can be restored, and why not. */
export interface BackupVerdict {
  name: string;
  /** Null where its description cannot be read. */
  kind: BackupKind | null;
  ok: boolean;
  reason: string | null;
}

/** Where a restore stops: a position of the change feed, or a moment. */
export type RestorePoint = { position: string } | { timeMs: number };

export interface RestoreReport {
  /** The names of the backups that were read, in order. */
  chain: string[];
  engine: string;
  entries: number;
  transactions: number;
  /** The newest sequence number of each shard in the new home. */
  seq: number[];
  /** Whether the chain holds the key ring for secrets. */
  hasKey: boolean;
}

/** `disk_full` ends by itself when there is room again, `stopped` with a restart. */
export type WritesState = 'ok' | 'disk_full' | 'stopped';

/** What a home knows about itself without reading a row. */
export interface HomeFacts {
  storeId: string;
  engine: string;
  shards: number;
  writes: WritesState;
  /** The newest number of the change feed, added up over all shards. */
  sequence: number;
  feedBytes: number;
  /** Age of the oldest timer that is due and not handled. */
  expiryBacklogMs: number;
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

/** A row as it is stored, for people who want to see the bytes. */
export interface InspectedEntry {
  /** In hex, as is the value. */
  key: string;
  /** Empty where it is not for showing. */
  value: string;
  /** What the row says, as JSON; null where it cannot be read. */
  decoded: unknown;
}

export type DamageKind =
  /** A row that follows from another is not there. */
  | 'missing'
  /** A row speaks of something that is not there. */
  | 'dangling'
  /** A second row of an index where one belongs. */
  | 'duplicate'
  /** A row says something that is not so. */
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
  /** What a repair does, or null where only a backup can help. */
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
  /** The first ones; all are counted. */
  findings: ExaminedFinding[];
}
