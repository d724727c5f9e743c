/** The operations of the change feed and of the commit across all domains. */
import type { OperationTable } from '../operation.js';

export const changes = {
  read: {
    method: 'GET',
    path: '/v1/changes',
    summary: 'List changes in order, after a position',
    streams: 'asked',
  },
} as const satisfies OperationTable;

export const commits = {
  create: {
    method: 'POST',
    path: '/v1/commit',
    summary: 'Run several operations of any domain, all or none',
    creates: true,
  },
} as const satisfies OperationTable;
