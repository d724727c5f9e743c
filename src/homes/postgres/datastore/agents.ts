/** The agents that have read or written documents in a namespace. */
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import type { Scope } from '../../../datastore/model.js';
import { type Queryable, query } from '../connection.js';
import { valuesList } from './sql.js';

/** Inserts rows in a fixed order, so that two statements cannot deadlock. */
export async function recordAgents(
  sql: Queryable,
  seen: readonly { scope: Scope; agent: string }[],
): Promise<void> {
  const distinct = new Map(
    seen.map(({ scope, agent }) => [
      `${scope.user}\n${scope.namespace}\n${agent}`,
      [scope.user, scope.namespace, agent],
    ]),
  );
  if (distinct.size === 0) return;
  const rows = [...distinct.entries()].toSorted(([a], [b]) => compareCodePoints(a, b)).map(([, row]) => row);
  await query(
    sql,
    `INSERT INTO agent_data_store_agents ("userId", namespace, agent)
      VALUES ${valuesList(rows.length, ['', '', ''])} ON CONFLICT DO NOTHING`,
    rows.flat(),
  );
}
