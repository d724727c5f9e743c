/** Operations of the operator: server status, backups, transfers and repairs. */
import { type OperationTable, operatorOnly } from '../operation.js';

export const server = {
  status: {
    method: 'GET',
    path: '/v1/status',
    summary: 'Get the status of the server and its store',
    principals: operatorOnly,
  },
  config: {
    method: 'GET',
    path: '/v1/config',
    summary: 'List the settings of the server with the source of each value',
    principals: operatorOnly,
  },
  examine: {
    method: 'POST',
    path: '/v1/doctor',
    summary: 'Find damaged indexes and repair them',
    principals: operatorOnly,
    streams: 'asked',
  },
  listFamilies: {
    method: 'GET',
    path: '/v1/inspect',
    summary: 'List the families of the store, with counts and sizes',
    principals: operatorOnly,
  },
  listEntries: {
    method: 'GET',
    path: '/v1/inspect/{family}',
    summary: 'List the raw entries of a family, in key order',
    principals: operatorOnly,
  },
  rekey: {
    method: 'POST',
    path: '/v1/secrets/rekey',
    summary: 'Create a new key and re-encrypt every secret with it',
    principals: operatorOnly,
    bodiless: true,
  },
  export: {
    method: 'GET',
    path: '/v1/export',
    summary: 'Export everything as lines of JSON',
    principals: operatorOnly,
    streams: 'always',
  },
  import: {
    method: 'POST',
    path: '/v1/import',
    summary: 'Import the lines of an export into this store',
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
    summary: 'Create a backup while the server runs',
    principals: operatorOnly,
    creates: true,
    streams: 'asked',
  },
  verify: {
    method: 'POST',
    path: '/v1/backups/verify',
    summary: 'Read every backup of a directory on the server and check that it can be restored',
    principals: operatorOnly,
    repeatable: true,
    streams: 'asked',
  },
} as const satisfies OperationTable;

export const blocks = {
  list: {
    method: 'GET',
    path: '/v1/blocks',
    summary: 'List the addresses that are blocked for exceeding rate limits',
    principals: operatorOnly,
  },
  delete: {
    method: 'DELETE',
    path: '/v1/blocks',
    summary: 'Unblock an address',
    principals: operatorOnly,
  },
} as const satisfies OperationTable;
