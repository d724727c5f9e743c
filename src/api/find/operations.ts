/** The operations of the search. */
import { type OperationTable, bearers } from '../operation.js';

export const find = {
  search: {
    method: 'GET',
    path: '/v1/find',
    summary: 'Search documents, tasks and messages by their words, the best first',
  },
  query: {
    method: 'POST',
    path: '/v1/find',
    summary: 'Search with a filter on the values of documents, and sort by a member',
    writes: false,
    repeatable: true,
  },
  reindex: {
    method: 'POST',
    path: '/v1/find/reindex',
    summary: 'Build the search index again from the records',
    principals: bearers,
    repeatable: true,
    streams: 'asked',
  },
} as const satisfies OperationTable;
