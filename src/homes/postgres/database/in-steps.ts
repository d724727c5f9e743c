/** Statements over rows of which there may be very many, a step at a time. */
import { type Parameter, type PostgresSql, query } from './connection.js';

export interface Steps {
  table: string;
  /** Which rows. What the statement does to one takes it out of them. */
  where: string;
  parameters?: readonly Parameter[];
  rowsMax: number;
  /** Asked before each step. */
  isOver: () => boolean;
}

/**
 * Runs a DELETE or UPDATE until no rows are left. In one statement they would all be locked until its end,
 * and with enough of them it would end at its time limit every time. Rows that somebody else is at are left
 * for the next time.
 */
export async function inSteps(
  sql: PostgresSql,
  statement: string,
  { table, where, parameters = [], rowsMax, isOver }: Steps,
): Promise<void> {
  const step = `${statement}
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM ${table} WHERE ${where} LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))
    RETURNING 1`;
  while (!isOver() && (await query(sql, step, parameters)).length === rowsMax);
}
