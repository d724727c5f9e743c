/** What an export and an import need from the storage of one kind of record. */
import type { Conflict, OnConflict, Outcome, TransferRecord } from './model.js';

export interface RecordPage<Kind extends TransferRecord> {
  records: Kind[];
  /** Where to continue, in the store's own terms; null at the end. */
  after: string | null;
}

export interface ExportScope {
  /** Null for every user's. */
  user: string | null;
  withSecrets: boolean;
  /** For a move: also holders of leases and fencing numbers of deleted agents. */
  whole?: boolean;
}

/** What the rest of the file contains, for checking a record before anything is written. */
export interface Coming {
  /** The file holds everything that the record refers to. */
  references: boolean;
  /** New records of the same type and user that come before it in the file and count in a quota. */
  newBefore: number;
  /** The quota of agents that the file gives the user; undefined if the file has none. */
  agentsMax: number | null | undefined;
}

/** Exports and imports records unchanged, with times, versions and counters. */
export interface RecordStore<Kind extends TransferRecord = TransferRecord> {
  /** A copy of the store for one import, which counts the records of the file. */
  forImport?(): RecordStore<Kind>;
  /** Why this store could not hold a record even if it were empty; null if it could. */
  refusalOf?(record: Kind): string | null;
  /** Whether a new record counts in the quota of its user; every record does where this is missing. */
  isCounted?(record: Kind): boolean;
  page(scope: ExportScope, after: string | null, limit: number): Promise<RecordPage<Kind>>;
  /** `same`: the stored record is equal. */
  judge(record: Kind, coming: Coming): Promise<'new' | 'same' | Conflict>;
  /** One transaction for each owner; each record is checked again in it. Throws `conflict` with `fail`. */
  write(records: readonly Kind[], onConflict: OnConflict): Promise<Outcome[]>;
}
