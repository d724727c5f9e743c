/** The agents that have read or written documents in a namespace. */
import { compareCodePoints } from '../../../datastore/documents/code-point-order.js';
import type { Scope } from '../../../datastore/model.js';
import { lockKeySql, shareLockKeysSql } from '../database/advisory-locks.js';
import { type Parameter, type Queryable, query } from '../database/connection.js';
import type { Work } from '../write/work.js';
import { valuesList } from './sql.js';

export interface SeenAgent {
  readonly scope: Scope;
  readonly agent: string;
}

type Statement = [text: string, parameters: Parameter[]];

/** For documents that are committed. */
export async function recordAgents(sql: Queryable, seen: readonly SeenAgent[]): Promise<void> {
  if (seen.length > 0) await query(sql, ...insertAgents(seen));
}

/**
 * For documents of an open transaction, which the last step of a clear does not see. It must not delete their
 * agents: it waits for the lock until the transaction ends.
 */
export function agentsStatements(seen: readonly SeenAgent[]): Statement[] {
  if (seen.length === 0) return [];
  const names = new Set(seen.map(({ scope }) => namespaceName(scope)));
  return [
    [shareLockKeysSql('namespaceAgents'), [[...names].toSorted(compareCodePoints)]],
    insertAgents(seen),
  ];
}

/**
 * Records agents right before the commit, when the write has locked all its documents: a clear also locks
 * documents first, so the two cannot deadlock.
 */
export function keepAgents(work: Work, seen: readonly SeenAgent[]): void {
  work.part(agentsOf).push(...seen);
}

function agentsOf(work: Work): SeenAgent[] {
  const seen: SeenAgent[] = [];
  work.beforeCommit(async () => {
    for (const statement of agentsStatements(seen)) work.send(...statement);
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

/** Names cannot contain control characters. */
function namespaceName({ user, namespace }: Scope): string {
  return `${user}\n${namespace}`;
}

/**
 * After a clear. Documents that were written behind its steps have their agents here. A plain set may commit
 * one after the first statement has looked for documents and before it deletes the agent, so a second
 * statement looks again.
 */
export async function forgetAgents(work: Work, scope: Scope): Promise<void> {
  const { user, namespace } = scope;
  await work.rows(lockKeySql('namespaceAgents'), [namespaceName(scope)]);
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
