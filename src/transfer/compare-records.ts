/** What stands in the way of a record, and what becomes of it: the same on every backend. */
import { isDeepStrictEqual } from 'node:util';
import { StoaError } from '../core/errors.js';
import type { Conflict, OnConflict, Outcome, TransferRecord } from './model.js';
import type { RecordStore } from './port.js';

/** `same`: the very same record is there. */
export type Verdict = 'new' | 'same' | Conflict;

/** Whether two records have the same essence, as JSON has it: members without a value do not count. */
export function isSame<Kind>(
  stored: Kind,
  record: Kind,
  essence: (one: Kind) => unknown = (one) => one,
): boolean {
  return isDeepStrictEqual(plain(essence(stored)), plain(essence(record)));
}

/** When nothing but the record of its own id could be in the way. */
export function verdictOf(record: TransferRecord, stored: TransferRecord | undefined): Verdict {
  return stored === undefined
    ? 'new'
    : { kind: 'exists', detail: `There is another ${record.type} under the same id.` };
}

/** What to do with a record; `written` and `replaced` are for the store to carry out. Throws where a conflict ends the import. */
export function outcomeOf(verdict: Verdict, onConflict: OnConflict): Outcome {
  if (verdict === 'same') return 'same';
  if (verdict === 'new') return 'written';
  if (onConflict === 'fail') throw new StoaError('conflict', verdict.detail);
  return onConflict === 'skip' || verdict.kind !== 'exists' ? 'skipped' : 'replaced';
}

export function orphan(what: string): Conflict {
  return { kind: 'orphan', detail: `${what} is not there, or is another user's.` };
}

/** A store takes only records of its own type; the import sorts them by type. */
export function erased<Kind extends { type: string }>(store: RecordStore<Kind>): RecordStore {
  return store;
}

function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value)) as unknown;
}
