/**
 * What `stoa doctor` checks of every declared index: each record has its rows, and there are no other rows.
 */
import { type Damage, type ExaminedRow, missingRow, wrongRow } from '../kernel/inspect/damage.js';
import type { Check } from '../kernel/inspect/doctor.js';
import type { Reader } from '../kernel/transaction.js';
import type { IndexRow, IndexedFamily } from '../indexed-family.js';

/** The index rows that a record must have and that are missing or have another value. */
export function* inspectRows(reader: Reader, rows: Iterable<IndexRow>, name: string): Generator<Damage> {
  for (const { family, key, value } of rows) {
    const stored = reader.get(family, key);
    if (stored?.equals(value) === true) continue;
    yield stored === undefined
      ? missingRow(family, key, `An index row of ${name} is missing.`, value)
      : wrongRow(family, key, `An index row of ${name} has a wrong value.`, value);
  }
}

/**
 * Compares a stored index row with the rows of the record that it names; undefined if the record does not
 * exist.
 */
export function* inspectIndexRow(
  row: ExaminedRow,
  rows: readonly IndexRow[] | undefined,
  noun: string,
): Generator<Damage> {
  if (rows === undefined) yield row.dangling(`The index row names a ${noun} that does not exist.`);
  else if (!rows.some(({ family, key }) => family === row.family && key.equals(row.key)))
    yield row.surplus(`The index row does not follow from the ${noun} that it names.`, 'duplicate');
}

/**
 * Compares each row of an index with the record that it names. `find` throws for a record that cannot be
 * read, which the check of its own family reports.
 */
export function indexCheck<Placed>(
  family: string,
  noun: string,
  records: IndexedFamily<Placed>,
  find: (row: ExaminedRow) => Placed | undefined,
): Check {
  return {
    family,
    *inspect(row) {
      const found = readable(() => ({ record: find(row) }));
      if (found === undefined) return;
      const { record } = found;
      yield* inspectIndexRow(row, record === undefined ? undefined : records.rowsOf(record), noun);
    },
  };
}

/** The content of a row, or undefined if it cannot be read. */
export function readable<Content>(decode: () => Content): Content | undefined {
  try {
    return decode();
  } catch {
    return undefined;
  }
}
