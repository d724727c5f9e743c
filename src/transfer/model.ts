/** The lines of an export, and the report of an import. */

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

/** The last line. If it is missing, the file is incomplete. */
export interface Trailer extends TransferRecord {
  type: 'stoa.end';
  /** Records by type. */
  counts: Record<string, number>;
  /** The hash of every line before this one, with the line ends. */
  sha256: string;
}

/** Why a record cannot simply be written. */
type ConflictKind =
  /** Another record has the same id. */
  | 'exists'
  /** Its name, key or place belongs to another record. */
  | 'name_taken'
  /** The agent holds tasks under its present name. */
  | 'holds_tasks'
  /** The user would have more than the quota allows. */
  | 'quota'
  /** The record that it belongs to does not exist, or was skipped. */
  | 'orphan';

export interface Conflict {
  kind: ConflictKind;
  detail: string;
}

export type OnConflict = 'fail' | 'skip' | 'replace';

/** The result for a record. `same`: an equal record exists already. */
export type Outcome = 'written' | 'replaced' | 'same' | 'skipped';

export interface LineConflict extends Conflict {
  line: number;
  type: string;
  id: string;
}

interface BadLine {
  line: number;
  reason: string;
}

export interface ImportReport {
  dry_run: boolean;
  /** Valid records in the file. */
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
