/** The agents that have read or written documents in a namespace. */
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import type { Scope } from '../../../datastore/model.js';
import { type Queryable, query } from '../database/connection.js';
import type { Work } from '../write/work.js';
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

/**
 * After a clear. Documents that were written behind its steps have their agents here. One of them may be written after
 * the first statement has looked for documents and before it deletes the agent, so a second statement looks again.
 */
export async function forgetAgents(work: Work, { user, namespace }: Scope): Promise<void> {
  const forgotten = await work.rows(
    `DELETE FROM agent_data_store_agents WHERE "userId" = $1 AND namespace = $2
      AND NOT EXISTS (SELECT FROM agent_data_store WHERE "userId" = $1 AND namespace = $2) RETURNING agent`,
    [user, namespace],
  );
  if (forgotten.length === 0) return;
  await work.rows(
    `INSERT INTO agent_data_store_agents ("userId", namespace, agent)
      SELECT DISTINCT "userId", namespace, agent FROM agent_data_store,
        unnest(ARRAY["createdByAgent", "updatedByAgent", "lastAccessedByAgent"]) AS agent
      WHERE "userId" = $1 AND namespace = $2 AND agent IS NOT NULL
      ORDER BY agent ON CONFLICT DO NOTHING`,
    [user, namespace],
  );
}
