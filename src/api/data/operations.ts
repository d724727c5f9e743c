/** The data store: its operations. */
import { type OperationTable, bearers } from '../operation.js';

export const mergePatchType = 'application/merge-patch+json';

export const data = {
  listNamespaces: { method: 'GET', path: '/v1/data', summary: 'The namespaces, with what is in them' },
  list: {
    method: 'GET',
    path: '/v1/data/{namespace}',
    summary: 'The keys of a namespace in code-point order, or its documents',
  },
  batch: {
    method: 'POST',
    path: '/v1/data/{namespace}',
    summary: 'Sets, deletes and reads many keys in one step',
    creates: true,
    // A batch of reads is for readers too; the service refuses the rest.
    writes: false,
  },
  clear: { method: 'DELETE', path: '/v1/data/{namespace}', summary: 'Clears a namespace' },
  get: { method: 'GET', path: '/v1/data/{namespace}/{key}', summary: 'One document', versioned: true },
  set: {
    method: 'PUT',
    path: '/v1/data/{namespace}/{key}',
    summary: 'Writes a document, new or over the one that is there',
    versioned: true,
    takesKey: true,
    repeatable: true,
  },
  change: {
    method: 'PATCH',
    path: '/v1/data/{namespace}/{key}',
    summary: 'Adds to a number, appends to a list, or merges into a value, in one step',
    versioned: true,
    takesKey: true,
    wholeBody: 'change',
    consumes: ['application/json', mergePatchType],
  },
  delete: {
    method: 'DELETE',
    path: '/v1/data/{namespace}/{key}',
    summary: 'Deletes a document',
    versioned: true,
    takesKey: true,
  },
} as const satisfies OperationTable;

/** Documents exactly as they are. */
export const documents = {
  list: {
    method: 'GET',
    path: '/v1/documents',
    summary: 'Every document of the data store, for export',
  },
  import: {
    method: 'POST',
    path: '/v1/documents',
    summary: 'Imports documents as they are, over what is there',
    // A document names who made and read it, which a signed agent must not claim for others.
    principals: bearers,
  },
  importLines: {
    method: 'POST',
    path: '/v1/documents/lines',
    summary: 'Imports a file of documents, one a line, of any length',
    principals: bearers,
    upload: true,
    streams: 'asked',
    bodyLimit: 'importBytesMax',
  },
} as const satisfies OperationTable;
