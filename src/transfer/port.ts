/** What an export and an import need of the storage of one kind of record. */
import type { Conflict, OnConflict, Outcome, TransferRecord } from './model.js';

export interface RecordPage<Kind extends TransferRecord> {
  records: Kind[];
  /** Where to go on, in the store's own terms; null at the end. */
  after: string | null;
}

export interface ExportScope {
  /** Null for every user's. */
  user: string | null;
  withSecrets: boolean;
}

/** What else the file brings, when a record is judged before anything is written. */
export interface Coming {
  /** The file holds everything that the record refers to. */
  references: boolean;
  /** New records of the same type and user that come before it in the file. */
  newBefore: number;
  /** The quota of agents that the file gives the user; undefined where it does not say. */
  agentsMax: number | null | undefined;
}

/** Records go in and out exactly as they are: times, versions and counters kept. */
export interface RecordStore<Kind extends TransferRecord = TransferRecord> {
  /** The same store for one import, where it counts what the file brings. */
  forImport?(): RecordStore<Kind>;
  /** Why this store could not hold a record even if it were empty; null where it could. */
  refusalOf?(record: Kind): string | null;
  page(scope: ExportScope, after: string | null, limit: number): Promise<RecordPage<Kind>>;
  /** `same`: the very same record is there. */
  judge(record: Kind, coming: Coming): Promise<'new' | 'same' | Conflict>;
  /** In one transaction for each owner; each record is judged again in it. Throws `conflict` where `fail` is asked for. */
  write(records: readonly Kind[], onConflict: OnConflict): Promise<Outcome[]>;
}
