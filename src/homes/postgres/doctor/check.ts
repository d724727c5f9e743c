/** One thing that must hold in the tables, and how it is made to hold again. */
import type { DamageKind } from '../../../operations/model.js';

/**
 * `find` answers rows with `key` and `problem`; `repair` makes it hold again, for all rows at once.
 */
export interface Check {
  readonly family: string;
  readonly kind: DamageKind;
  readonly find: string;
  /** Missing if only a backup can help. */
  readonly repair?: {
    readonly about: string;
    readonly statement: string;
    /** A statement that keeps other writers out during the repair, so that it counts all rows. */
    readonly lock: string;
  };
}

export const findingsMax = 10_000;

/** Locks tables for writes. */
export function lockTables(...tables: readonly string[]): string {
  return `LOCK TABLE ${tables.join(', ')} IN EXCLUSIVE MODE`;
}
