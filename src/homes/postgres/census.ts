/** Counts the records of a Stoa in PostgreSQL. */
import type { Census } from '../../operations/census.js';
import { type AgentState, agentStateOf } from '../../registry/model.js';
import type { TaskStatus } from '../../workspaces/model.js';
import { type PostgresSql, query } from './database/connection.js';

interface Counted {
  what: 'agents' | 'documents' | 'leases' | 'messages' | 'tasks';
  name: string | null;
  count: string;
}

const counts = `
  SELECT 'agents' AS what, status::text AS name, count(*) AS count FROM registry.agents GROUP BY status
  UNION ALL SELECT 'tasks', status::text, count(*) FROM workspaces.tasks GROUP BY status
  UNION ALL SELECT 'documents', NULL, coalesce(sum(documents), 0) FROM agent_data_store_counts
  UNION ALL SELECT 'messages', NULL, coalesce(sum(message_count), 0) FROM rooms
  UNION ALL SELECT 'messages', NULL, coalesce(sum(message_count), 0) FROM messaging.room_facts
    WHERE owner IS NOT NULL
  UNION ALL SELECT 'leases', NULL, count(*) FROM registry.agents
    WHERE lease_holder IS NOT NULL AND lease_expires_at > clock_timestamp()
  UNION ALL SELECT 'leases', NULL, count(*) FROM locks.locks WHERE expires_at > clock_timestamp()
  UNION ALL SELECT 'leases', NULL, count(*) FROM workspaces.leases
    WHERE holder IS NOT NULL AND expires_at > clock_timestamp()`;

export async function takeCensus(sql: PostgresSql): Promise<Census> {
  const rows = await query<Counted>(sql, counts);
  const sumOf = (what: Counted['what']) =>
    rows.filter((row) => row.what === what).reduce((sum, { count }) => sum + Number(count), 0);
  const byName = <Name extends string>(what: Counted['what'], nameOf: (text: string) => Name | undefined) =>
    Object.fromEntries(
      rows.filter((row) => row.what === what).map(({ name, count }) => [nameOf(name ?? ''), Number(count)]),
    ) as Partial<Record<Name, number>>; // The names are those that the table has.
  return {
    documents: sumOf('documents'),
    agents: byName<AgentState>('agents', (byte) => agentStateOf(Number(byte))),
    tasks: byName<TaskStatus>('tasks', (status) => status as TaskStatus),
    messages: sumOf('messages'),
    leases: sumOf('leases'),
  };
}
