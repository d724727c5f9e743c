/** What a home can do for its operator. */
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency.js';
import type { Page } from '../core/paging.js';
import type { EngineName } from '../core/settings/store-config.js';
import type {
  BackupKind,
  BackupSummaries,
  BackupSummary,
  BackupVerdict,
  ExaminedFinding,
  HomeFacts,
  HomeSize,
  InspectedEntry,
  OnProgress,
  RestorePoint,
  RestoreReport,
} from './model.js';

export interface BackupRequest {
  /** Holds the backups; each becomes a directory of its own in it. */
  directory: string;
  kind: BackupKind;
  /** Reads the key ring for secrets, to put it in; without it nobody can read the secrets in the backup. */
  readKey: (() => Promise<Buffer>) | undefined;
  onProgress: OnProgress | undefined;
}

export interface EntryRequest {
  /** Only keys that begin with these bytes, in hex. */
  prefix: string | undefined;
  limit: number;
  cursor: string | undefined;
}

/** A home that is open. */
export interface OperationsPort {
  /** Where backups go unless a request names another directory. */
  readonly backupDirectory: string;
  facts(): HomeFacts;
  /** Reads from every part of the home; throws the reason why one of them cannot work. */
  check(): void | Promise<void>;
  /** Counts rows where the engine only estimates them, up to `entriesMax` of each family. */
  measure(entriesMax: number): Promise<HomeSize>;
  /** Every damage, repaired as it is found where asked for. */
  examine(repair: boolean): AsyncIterable<ExaminedFinding>;
  entries(family: string, request: EntryRequest): Page<InspectedEntry> | Promise<Page<InspectedEntry>>;
  backup(request: BackupRequest): Promise<BackupSummary>;
  /** Does work outside of transactions once for an Idempotency-Key. */
  once<Result>(caller: Caller, idempotency: Idempotency | null, work: () => Promise<Result>): Promise<Result>;
  /** Notes where the server listens, so that other commands find it. */
  announce(url: string): Promise<void>;
}

export interface RestoreRequest {
  /** The directory that holds the backups. */
  directory: string;
  /** The data directory to make; it must not exist, or be empty. */
  target: string;
  to: RestorePoint | undefined;
  /** The backup to end with; the newest unless given. */
  name: string | undefined;
  /** That of the backup unless given. */
  engine: EngineName | undefined;
  withKey: boolean;
  onProgress: OnProgress | undefined;
}

/** Directories of backups: files that need no home to be open. */
export interface Archive {
  /** Throws `not_found` where the directory cannot be read. */
  list(directory: string): Promise<BackupSummaries>;
  /** Reads every byte and follows every link, without restoring anything. */
  verify(directory: string, onProgress: OnProgress | undefined): Promise<BackupVerdict[]>;
  /** Removes the oldest full backups of each store with their increments, and what unfinished ones left. */
  prune(directory: string, keep: number): Promise<string[]>;
  restore(request: RestoreRequest): Promise<RestoreReport>;
}
