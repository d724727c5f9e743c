/** The agents of namespaces in PostgreSQL, as a move takes them. */
import type { NamespaceAgentLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, query } from '../database/connection.js';
import { recordAgents } from '../datastore/agents.js';
import type { PostgresWriter } from '../write/writer.js';
import { TableRecords, pageOfRows, writerAccess } from './records.js';

interface AgentRow {
  userId: string;
  namespace: string;
  agent: string;
}

const rows = {
  columns: '"userId", namespace, agent',
  from: 'agent_data_store_agents a',
  key: ['"userId"', 'namespace', 'agent'],
  where: `AND EXISTS (SELECT FROM agent_data_store d
    WHERE d."userId" = a."userId" AND d.namespace = a.namespace)`,
};

export function agentRecordStore(
  sql: PostgresSql,
  transact: PostgresWriter['transact'],
): [type: string, store: RecordStore] {
  return [
    'data.agent',
    new TableRecords(writerAccess(sql, transact), {
      page: (_scope, after, limit) => pageOfRows(sql, rows, lineOf, after, limit),
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

function lineOf({ userId, namespace, agent }: AgentRow): NamespaceAgentLine {
  return { type: 'data.agent', user: userId, namespace, agent };
}
