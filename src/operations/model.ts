/** The words of the operator's operations. Their answers are described in `schemas.ts`. */
import type { z } from 'zod';
import type * as schemas from './schemas.js';

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

type Status = z.output<typeof schemas.statusSchema>;

/** The state of the home, without that of the server in front of it. */
export type HomeStatus = Omit<Status, 'version' | 'node' | 'uptime_seconds' | 'streams'>;
/** One of the servers that share a home. */
export type LiveServer = Status['servers'][number];
/** Rows of one kind. */
export type FamilySize = z.output<typeof schemas.familySizeSchema>;
/** A stored row, for people who want to see the bytes; `value` is empty if it must not be shown. */
export type InspectedEntry = z.output<typeof schemas.entrySchema>;

/** A backup in lists and answers. The bytes are not read for its `reason`. */
export type BackupSummary = z.output<typeof schemas.backupSchema>;
export type BackupKind = BackupSummary['kind'];
/** Oldest first. */
export type BackupSummaries = Omit<z.output<typeof schemas.backupListSchema>, 'next_cursor'>;
export type CreatedBackup = z.output<typeof schemas.createdBackupSchema>;
/** One backup, whether it can be restored, and why not. */
export type BackupVerdict = z.output<typeof schemas.backupVerdictSchema>;

export type ExaminedFinding = z.output<typeof schemas.findingSchema>;
/** One damaged or missing row. */
export type Finding = Omit<ExaminedFinding, 'shard' | 'repaired'>;
export type DamageKind = Finding['kind'];
/** The first findings; all are counted. */
export type Examination = z.output<typeof schemas.examinationSchema>;

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

/** Whether a home can take work. */
export interface Readiness {
  /** `unavailable`: a database that everything needs does not answer. */
  writes: HomeStatus['writes'] | 'unavailable';
  /** Parts that do not answer or refuse writes, while most requests work without them: why, by name. */
  degraded: Readonly<Record<string, string>>;
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
  writes: HomeStatus['writes'];
  /** The newest number of the change feed, added up over all shards. */
  sequence: number;
  feedBytes: number;
  /** Age of the oldest timer that is due and not handled. */
  expiryBacklogMs: number;
  /** Null if only one server uses the home. */
  load: ServerLoad | null;
}

export interface HomeSize {
  sizeBytes: number;
  families: ReadonlyMap<string, FamilySize>;
}
