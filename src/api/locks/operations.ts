/** The operations of advisory locks. */
import type { OperationTable } from '../operation.js';

export const locks = {
  list: {
    method: 'GET',
    path: '/v1/locks',
    summary: 'List the locks that agents hold, by name',
  },
  acquire: {
    method: 'PUT',
    path: '/v1/locks/{name}',
    summary: 'Acquire a lock, or renew it',
    // The same holder gets the same lock again.
    repeatable: true,
  },
  release: {
    method: 'DELETE',
    path: '/v1/locks/{name}',
    summary: 'Release a lock',
    repeatable: true,
  },
} as const satisfies OperationTable;
