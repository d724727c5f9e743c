/** The operations of the data store. */
import { type OperationTable, bearers } from '../operation.js';

export const mergePatchType = 'application/merge-patch+json';

export const data = {
  listNamespaces: {
    method: 'GET',
    path: '/v1/data',
    summary: 'List namespaces, with their documents, sizes and agents',
  },
  getSettings: {
    method: 'GET',
    path: '/v1/namespaces/{namespace}',
    summary: 'Get the settings of a namespace',
  },
  changeSettings: {
    method: 'PATCH',
    path: '/v1/namespaces/{namespace}',
    summary: 'Change the settings of a namespace',
    repeatable: true,
  },
  list: {
    method: 'GET',
    path: '/v1/data/{namespace}',
    summary: 'List the keys or documents of a namespace in code-point order',
  },
  batch: {
    method: 'POST',
    path: '/v1/data/{namespace}',
    summary: 'Set, delete and read many keys in one step',
    creates: true,
    // A batch of reads is allowed for read-only tokens; the service refuses the writes.
    writes: false,
  },
  clear: { method: 'DELETE', path: '/v1/data/{namespace}', summary: 'Clear a namespace' },
  get: { method: 'GET', path: '/v1/data/{namespace}/{key}', summary: 'Get a document', versioned: true },
  set: {
    method: 'PUT',
    path: '/v1/data/{namespace}/{key}',
    summary: 'Create or replace a document',
    versioned: true,
    takesKey: true,
    repeatable: true,
  },
  change: {
    method: 'PATCH',
    path: '/v1/data/{namespace}/{key}',
    summary: 'Add to a number, append to a list, or merge into a value, in one step',
    versioned: true,
    takesKey: true,
    wholeBody: 'change',
    consumes: ['application/json', mergePatchType],
  },
  delete: {
    method: 'DELETE',
    path: '/v1/data/{namespace}/{key}',
    summary: 'Delete a document',
    versioned: true,
    takesKey: true,
  },
} as const satisfies OperationTable;

/** Documents with their times, versions and counters. */
export const documents = {
  list: {
    method: 'GET',
    path: '/v1/documents',
    summary: 'Export every document of the data store',
  },
  import: {
    method: 'POST',
    path: '/v1/documents',
    summary: 'Import documents unchanged, replacing existing ones',
    // A document names the agents that made and read it. A signed agent must not claim that for others.
    principals: bearers,
  },
  importLines: {
    method: 'POST',
    path: '/v1/documents/lines',
    summary: 'Import a whole file with one document on each line',
    principals: bearers,
    upload: true,
    streams: 'asked',
    bodyLimit: 'importBytesMax',
  },
} as const satisfies OperationTable;
