/** Metrics of what the home has: documents, agents by state, tasks by status, messages, leases. */
import type { Registry } from 'prom-client';
import type { Stoa } from '../../index.js';
import { agentStates } from '../../registry/model.js';
import { taskStatuses } from '../../workspaces/model.js';
import { measureTogether } from './shared-gauges.js';

export function measureCensus(registry: Registry, { operations, onError }: Stoa): void {
  measureTogether(registry, {
    read: () => operations.census(),
    onError: (error) => onError(error, 'counting for /metrics'),
    gauges: [
      { name: 'stoa_documents', help: 'Documents of all users.', of: ({ documents }) => documents },
      {
        name: 'stoa_agents',
        help: 'Agents of all users, by state.',
        label: 'state',
        of: ({ agents }) => withZeros(agentStates, agents),
      },
      {
        name: 'stoa_tasks',
        help: 'Tasks of all users, by status.',
        label: 'status',
        of: ({ tasks }) => withZeros(taskStatuses, tasks),
      },
      {
        name: 'stoa_messages_posted',
        help: 'Messages ever posted in the rooms that exist, of all users.',
        of: ({ messages }) => messages,
      },
      {
        name: 'stoa_leases',
        help: 'Leases of agents and tasks that have not expired.',
        of: ({ leases }) => leases,
      },
    ],
  });
}

/** A state that became empty shows 0, not its last number. */
function withZeros<Name extends string>(
  names: readonly Name[],
  counts: Readonly<Partial<Record<Name, number>>>,
): Record<string, number> {
  return Object.fromEntries(names.map((name) => [name, counts[name] ?? 0]));
}
