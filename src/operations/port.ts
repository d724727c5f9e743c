/** The operations of a home for its operator. */
import type { Caller } from '../core/caller.js';
import type { Idempotency } from '../core/idempotency/idempotency.js';
import type { Page } from '../core/paging.js';
import type { EngineName } from '../core/settings/store-config.js';
import type { Census } from './census.js';
import type {
  BackupKind,
  BackupSummaries,
  BackupSummary,
  BackupVerdict,
  ExaminedFinding,
  HomeFacts,
  HomeSize,
  InspectedEntry,
  LiveServer,
  OnProgress,
  Readiness,
  RestorePoint,
  RestoreReport,
} from './model.js';

export interface BackupRequest {
  /** The directory of the backups; each backup is a directory in it. */
  directory: string;
  kind: BackupKind;
  /** Reads the key ring to include it. Without the key ring the secrets in the backup cannot be decrypted. */
  readKey: (() => Promise<Buffer>) | undefined;
  onProgress: OnProgress | undefined;
}

export interface EntryRequest {
  /** Only keys that begin with these bytes, in hex. */
  prefix: string | undefined;
  limit: number;
  cursor: string | undefined;
}

/** An open home. */
export interface OperationsPort {
  /** The directory for backups if a request names no other. */
  readonly backupDirectory: string;
  facts(): HomeFacts;
  readiness(): Promise<Readiness>;
  /** The servers that share this home; one that has its home to itself has none. */
  servers(): Promise<LiveServer[]>;
  /** Reads from every part of the home; throws the reason if one of them fails. */
  check(): void | Promise<void>;
  /** Sizes of the home. If the engine only estimates a family, up to `entriesMax` of its rows are counted. */
  measure(entriesMax: number): Promise<HomeSize>;
  /** A recent count. Counting is paced, because it reads every row of some families. */
  census(): Promise<Census>;
  /** All findings. With `repair` each is repaired when it is found. */
  examine(repair: boolean, onProgress?: OnProgress): AsyncIterable<ExaminedFinding>;
  entries(family: string, request: EntryRequest): Promise<Page<InspectedEntry>>;
  backup(request: BackupRequest): Promise<BackupSummary>;
  /** Does work outside of transactions once for an Idempotency-Key. */
  once<Result>(caller: Caller, idempotency: Idempotency | null, work: () => Promise<Result>): Promise<Result>;
  /** Stores the URL of the server, so that other commands find it. */
  announce(url: string): Promise<void>;
}

interface RestoreRequest {
  /** The directory that holds the backups. */
  directory: string;
  /** The data directory to create. It must not exist, or be empty. */
  target: string;
  to: RestorePoint | undefined;
  /** The last backup of the chain; the default is the newest. */
  name: string | undefined;
  /** The default is the engine of the backup. */
  engine: EngineName | undefined;
  withKey: boolean;
  onProgress: OnProgress | undefined;
}

/** Directories of backups: files that need no home to be open. */
export interface Archive {
  /** Throws `not_found` if the directory cannot be read. */
  list(directory: string): Promise<BackupSummaries>;
  /** Reads every byte and checks every chain, without restoring. */
  verify(directory: string, onProgress: OnProgress | undefined): Promise<BackupVerdict[]>;
  /**
   * Removes the oldest full backups of each store with their increments, and the remains of unfinished
   * backups.
   */
  prune(directory: string, keep: number): Promise<string[]>;
  restore(request: RestoreRequest): Promise<RestoreReport>;
}
