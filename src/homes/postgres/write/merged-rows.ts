/** Rows that are written by the same statement. A group of writes sends them together. */
import { type Parameter, listText } from '../database/connection.js';
import type { SharedPart, Work } from './work.js';

export interface RowSender {
  share<Part extends SharedPart>(make: () => Part, add: (part: Part) => void): void;
}

/**
 * Writes a row. `statementOf` gets the SQL of a table `given` with the columns as text, and must make the
 * same statement of the same names of columns.
 */
export function sendRow(
  work: RowSender,
  statementOf: (given: string) => string,
  columns: Readonly<Record<string, Parameter>>,
): void {
  const names = Object.keys(columns);
  const lists = names.map((_, index) => `$${index + 1}::text[]`).join(', ');
  const statement = statementOf(`unnest(${lists}) AS given (${names.join(', ')})`);
  work.share(makeRows, (rows) => rows.add(statement, Object.values(columns).map(textOf)));
}

const makeRows = (): MergedRows => new MergedRows();

class MergedRows implements SharedPart {
  /** By statement, in the order of their first rows: a row may refer to one of an earlier statement. */
  #rows = new Map<string, (string | null)[][]>();

  add(statement: string, row: (string | null)[]): void {
    const rows = this.#rows.get(statement);
    if (rows === undefined) this.#rows.set(statement, [row]);
    else rows.push(row);
  }

  store(send: Work['send']): void {
    const all = this.#rows;
    this.#rows = new Map();
    for (const [statement, rows] of all)
      send(
        statement,
        (rows[0] ?? []).map((_, column) => rows.map((row) => row[column] ?? null)),
      );
  }
}

function textOf(value: Parameter): string | null {
  if (value === null) return null;
  return typeof value === 'object' ? listText(value) : String(value);
}
