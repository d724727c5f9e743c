/** Runs a DELETE or UPDATE of many rows in batches. */
import { type Parameter, type PostgresSql, query } from './connection.js';

export interface Batches {
  table: string;
  /** The rows to change. After the statement, a row no longer matches. */
  where: string;
  parameters?: readonly Parameter[];
  rowsMax: number;
  /** Called before each batch. */
  isOver: () => boolean;
}

/**
 * Runs the statement until no row matches. One statement for all rows would lock them until its end, and with
 * enough rows it would always exceed its time limit. Rows that others have locked are skipped.
 */
export async function inSteps(
  sql: PostgresSql,
  statement: string,
  { table, where, parameters = [], rowsMax, isOver }: Batches,
): Promise<void> {
  const step = `${statement}
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM ${table} WHERE ${where} LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))
    RETURNING 1`;
  while (!isOver() && (await query(sql, step, parameters)).length === rowsMax);
}
