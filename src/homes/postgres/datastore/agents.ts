/** The agents that have read or written documents in a namespace. */
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import type { Scope } from '../../../datastore/model.js';
import { type Parameter, type Queryable, query } from '../database/connection.js';
import type { Work } from '../write/work.js';
import { namespaceName } from './namespace-name.js';
import { valuesList } from './sql.js';

export interface SeenAgent {
  readonly scope: Scope;
  readonly agent: string;
}

type Statement = [text: string, parameters: Parameter[]];

export async function recordAgents(sql: Queryable, seen: readonly SeenAgent[]): Promise<void> {
  if (seen.length > 0) await query(sql, ...insertAgents(seen));
}

/** Records agents right before the commit: once for all documents of the write. */
export function keepAgents(work: Work, seen: readonly SeenAgent[]): void {
  work.part(agentsOf).push(...seen);
}

function agentsOf(work: Work): SeenAgent[] {
  const seen: SeenAgent[] = [];
  work.beforeCommit(async () => {
    if (seen.length > 0) work.send(...insertAgents(seen));
  });
  return seen;
}

/** Inserts rows in a fixed order, so that two statements cannot deadlock. */
function insertAgents(seen: readonly SeenAgent[]): Statement {
  const distinct = new Map(
    seen.map(({ scope, agent }) => [
      `${namespaceName(scope)}\n${agent}`,
      [scope.user, scope.namespace, agent],
    ]),
  );
  const rows = [...distinct.entries()].toSorted(([a], [b]) => compareCodePoints(a, b)).map(([, row]) => row);
  return [
    `INSERT INTO agent_data_store_agents ("userId", namespace, agent)
      VALUES ${valuesList(rows.length, ['', '', ''])} ON CONFLICT DO NOTHING`,
    rows.flat(),
  ];
}

/**
 * At the end of a clear, which excludes other writes of documents. Those that were written behind its earlier steps
 * keep their agents.
 */
export async function forgetAgents(work: Work, scope: Scope): Promise<void> {
  await work.rows(
    `DELETE FROM agent_data_store_agents WHERE "userId" = $1 AND namespace = $2
      AND NOT EXISTS (SELECT FROM agent_data_store WHERE "userId" = $1 AND namespace = $2)`,
    [scope.user, scope.namespace],
  );
}
