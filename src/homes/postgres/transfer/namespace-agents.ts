/** The agents of namespaces in PostgreSQL, as a move takes them. */
import type { NamespaceAgentLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { recordAgents } from '../datastore/agents.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import { type TableAccess, TableRecords } from './records.js';

interface Reads {
  readonly sql: Queryable;
}

interface AgentRow {
  user: string;
  namespace: string;
  agent: string;
}

export function agentRecordStore(
  sql: PostgresSql,
  transact: PostgresWriter['transact'],
): [type: string, store: RecordStore] {
  const access: TableAccess<Reads, Work> = { reader: { sql }, transact };
  return [
    'data.agent',
    new TableRecords<NamespaceAgentLine, Reads, Work>(access, {
      page: async (_scope, after, limit) => {
        const [user = '', namespace = '', agent = ''] = after?.split('\0') ?? [];
        const rows = await query<AgentRow>(
          sql,
          `SELECT "userId" AS user, namespace, agent FROM agent_data_store_agents a
              WHERE ("userId", namespace, agent) > ($1, $2, $3) AND EXISTS (SELECT FROM agent_data_store d
                WHERE d."userId" = a."userId" AND d.namespace = a.namespace)
              ORDER BY "userId", namespace, agent LIMIT $4`,
          [user, namespace, agent, limit],
        );
        const last = rows.length < limit ? undefined : rows.at(-1);
        return {
          records: rows.map((row) => ({ type: 'data.agent', ...row })),
          after: last === undefined ? null : `${last.user}\0${last.namespace}\0${last.agent}`,
        };
      },
      stored: async ({ sql: on }, line) => {
        const found = await query(
          on,
          'SELECT FROM agent_data_store_agents WHERE "userId" = $1 AND namespace = $2 AND agent = $3',
          [line.user, line.namespace, line.agent],
        );
        return found.length === 0 ? undefined : line;
      },
      put: (work, { user, namespace, agent }) =>
        recordAgents(work.sql, [{ scope: { user, namespace }, agent }]),
    }),
  ];
}
