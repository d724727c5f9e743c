/** The change feed, and the commit across all domains: their operations. */
import type { OperationTable } from '../operation.js';

export const changes = {
  read: {
    method: 'GET',
    path: '/v1/changes',
    summary: 'What changed, in order, after a position',
    streams: 'asked',
  },
} as const satisfies OperationTable;

export const commits = {
  create: {
    method: 'POST',
    path: '/v1/commit',
    summary: 'Does several operations, of any domain, all or none',
    creates: true,
  },
} as const satisfies OperationTable;
