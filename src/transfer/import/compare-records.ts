/** Compares a record of an import with the stored one, and decides what to do. The same on every backend. */
import { isDeepStrictEqual } from 'node:util';
import { StoaError } from '../../core/errors.js';
import type { Conflict, OnConflict, Outcome, TransferRecord } from '../model.js';

/** `same`: the stored record is equal. */
export type Verdict = 'new' | 'same' | Conflict;

/** Whether two records are equal as JSON: members without a value are ignored. */
export function isSame<Kind>(
  stored: Kind,
  record: Kind,
  essence: (one: Kind) => unknown = (one) => one,
): boolean {
  return isDeepStrictEqual(plain(essence(stored)), plain(essence(record)));
}

/** For a type where only a record with the same id can be a conflict. */
export function verdictOf(record: TransferRecord, stored: TransferRecord | undefined): Verdict {
  return stored === undefined
    ? 'new'
    : { kind: 'exists', detail: `A ${record.type} with the same id exists with other content.` };
}

/**
 * What to do with a record. The store performs `written` and `replaced`. Throws if the conflict ends the
 * import.
 */
export function outcomeOf(verdict: Verdict, onConflict: OnConflict): Outcome {
  if (verdict === 'same') return 'same';
  if (verdict === 'new') return 'written';
  if (onConflict === 'fail') throw new StoaError('conflict', verdict.detail);
  return onConflict === 'skip' || verdict.kind !== 'exists' ? 'skipped' : 'replaced';
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}
