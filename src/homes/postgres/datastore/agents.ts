/** The agents that have read or written documents in a namespace. */
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import type { Scope } from '../../../datastore/model.js';
import { type Queryable, query } from '../database/connection.js';
import { valuesList } from './sql.js';

export interface SeenAgent {
  readonly scope: Scope;
  readonly agent: string;
}

export async function recordAgents(sql: Queryable, seen: readonly SeenAgent[]): Promise<void> {
  const statement = agentsStatement(seen);
  if (statement !== undefined) await query(sql, ...statement);
}

/** Inserts rows in a fixed order, so that two statements cannot deadlock. */
export function agentsStatement(
  seen: readonly SeenAgent[],
): [text: string, parameters: string[]] | undefined {
  const distinct = new Map(
    seen.map(({ scope, agent }) => [
      `${scope.user}\n${scope.namespace}\n${agent}`,
      [scope.user, scope.namespace, agent],
    ]),
  );
  if (distinct.size === 0) return undefined;
  const rows = [...distinct.entries()].toSorted(([a], [b]) => compareCodePoints(a, b)).map(([, row]) => row);
  return [
    `INSERT INTO agent_data_store_agents ("userId", namespace, agent)
      VALUES ${valuesList(rows.length, ['', '', ''])} ON CONFLICT DO NOTHING`,
    rows.flat(),
  ];
}
