/** What only the operator may do: the state of the server, backups, transfers, repairs. */
import { type OperationTable, operatorOnly } from '../operation.js';

export const server = {
  status: {
    method: 'GET',
    path: '/v1/status',
    summary: 'The state of the server and its store',
    principals: operatorOnly,
  },
  examine: {
    method: 'POST',
    path: '/v1/doctor',
    summary: 'Look for damage in the indexes, and mend it',
    principals: operatorOnly,
  },
  listFamilies: {
    method: 'GET',
    path: '/v1/inspect',
    summary: 'The families of the store, with counts and sizes',
    principals: operatorOnly,
  },
  listEntries: {
    method: 'GET',
    path: '/v1/inspect/{family}',
    summary: 'The raw entries of a family, in key order',
    principals: operatorOnly,
  },
  rekey: {
    method: 'POST',
    path: '/v1/secrets/rekey',
    summary: 'Make a new key and re-encrypt every secret with it',
    principals: operatorOnly,
    bodiless: true,
  },
  export: {
    method: 'GET',
    path: '/v1/export',
    summary: 'Everything as lines of JSON',
    principals: operatorOnly,
    streams: 'always',
  },
  import: {
    method: 'POST',
    path: '/v1/import',
    summary: 'Lines of an export into this store',
    principals: operatorOnly,
    upload: true,
    streams: 'asked',
  },
} as const satisfies OperationTable;

export const backups = {
  list: {
    method: 'GET',
    path: '/v1/backups',
    summary: 'List the backups of a directory on the server, oldest first',
    principals: operatorOnly,
  },
  create: {
    method: 'POST',
    path: '/v1/backups',
    summary: 'Make a backup while the server runs',
    principals: operatorOnly,
    creates: true,
    streams: 'asked',
  },
} as const satisfies OperationTable;

export const blocks = {
  list: {
    method: 'GET',
    path: '/v1/blocks',
    summary: 'Addresses that are blocked for running into rate limits',
    principals: operatorOnly,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/blocks',
    summary: 'Unblock an address',
    principals: operatorOnly,
  },
} as const satisfies OperationTable;
