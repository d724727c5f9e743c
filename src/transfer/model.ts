/** The lines of an export, and the report of an import. */
import type { z } from 'zod';
import type { importReportSchema } from './schemas.js';

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

export type ImportReport = z.output<typeof importReportSchema>;
export type LineConflict = ImportReport['conflicts'][number];
/** Why a record cannot simply be written. */
export type Conflict = Pick<LineConflict, 'kind' | 'detail'>;

export type OnConflict = 'fail' | 'skip' | 'replace';

/** The result for a record. `same`: an equal record exists already. */
export type Outcome = 'written' | 'replaced' | 'same' | 'skipped';
