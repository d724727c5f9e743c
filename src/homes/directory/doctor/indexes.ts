/**
 * What `stoa doctor` checks of every declared index: each record has its rows, and there are no other rows.
 */
import { type Damage, missingRow, surplusRow, wrongRow } from '../kernel/inspect/doctor.js';
import type { Entry } from '../kernel/engine.js';
import type { Reader } from '../kernel/transaction.js';
import type { IndexRow } from '../indexed-family.js';

/** The index rows that a record must have and that are missing or have another value. */
export function* inspectRows(reader: Reader, rows: Iterable<IndexRow>, name: string): Generator<Damage> {
  for (const { family, key, value } of rows) {
    const stored = reader.get(family, key);
    if (stored?.equals(value) === true) continue;
    const write: Damage['applyRepair'] = (tx) => tx.put(family, key, value);
    yield stored === undefined
      ? missingRow(family, key, `An index row of ${name} is missing.`, write)
      : wrongRow(family, key, `An index row of ${name} has a wrong value.`, write);
  }
}

/**
 * Compares a stored index row with the rows of the record that it names; undefined if the record does not
 * exist.
 */
export function* inspectIndexRow(
  family: string,
  { key }: Entry,
  rows: readonly IndexRow[] | undefined,
  noun: string,
): Generator<Damage> {
  if (rows === undefined)
    yield surplusRow(family, key, 'dangling', `The index row names a ${noun} that does not exist.`);
  else if (!rows.some((row) => row.family === family && row.key.equals(key)))
    yield surplusRow(
      family,
      key,
      'duplicate',
      `The index row does not follow from the ${noun} that it names.`,
    );
}
