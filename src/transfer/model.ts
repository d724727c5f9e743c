/** The lines of an export: what every kind of record looks like there, and what an import says about itself. */

export const transferDomains = ['registry', 'data', 'workspaces', 'messaging'] as const;
export type TransferDomain = (typeof transferDomains)[number];

export const formatName = 'stoa-export';
export const formatVersion = 1;

/** A record of some domain. Its `type` says which, and which further members it has. */
export interface TransferRecord {
  type: string;
}

/** The first line. */
export interface Header extends TransferRecord {
  type: 'stoa.export';
  format: typeof formatName;
  version: number;
  exported_at: string;
  /** The id of the store that it was taken from. */
  store: string;
  domains: TransferDomain[];
  /** The one user whose records these are; null means everybody's. */
  user: string | null;
  with_secrets: boolean;
}

/** The last line. Without it the file was cut off. */
export interface Trailer extends TransferRecord {
  type: 'stoa.end';
  /** Records by type. */
  counts: Record<string, number>;
  /** Of every line before this one, with its line end. */
  sha256: string;
}

/** Why a record cannot simply be written. */
export type ConflictKind =
  /** There is another record under its id. */
  | 'exists'
  /** Its name, key or place belongs to another record. */
  | 'name_taken'
  /** The user would have more than the quota allows. */
  | 'quota'
  /** What it belongs to is not there, or was left out itself. */
  | 'orphan';

export interface Conflict {
  kind: ConflictKind;
  detail: string;
}

export type OnConflict = 'fail' | 'skip' | 'replace';

/** What became of a record. `same`: it was there already, exactly so. */
export type Outcome = 'written' | 'replaced' | 'same' | 'skipped';

export interface LineConflict extends Conflict {
  line: number;
  type: string;
  id: string;
}

export interface BadLine {
  line: number;
  reason: string;
}

export interface ImportReport {
  dry_run: boolean;
  /** Records in the file, the bad ones left out. */
  records: number;
  written: number;
  replaced: number;
  same: number;
  skipped: number;
  /** The first ones; `conflicts_total` counts all. */
  conflicts: LineConflict[];
  conflicts_total: number;
  /** The first ones; `bad_total` counts all. */
  bad: BadLine[];
  bad_total: number;
}
