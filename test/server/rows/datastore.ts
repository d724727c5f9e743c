import { operatorCaller } from '../../../src/core/caller.js';
import type { Running } from '../running.js';
import { type Row, type RowRequest, statuses } from './row.js';

const reading = statuses(200, 200, 404, 200, 200, 401);
const listing = statuses(200, 200, 200, 200, 200, 401);
const writing = statuses(200, 200, 200, 403, 200, 401);
const making = statuses(201, 201, 201, 403, 201, 401);

let made = 0;

/** A document of alice's that no other row touches. */
async function document({ stoa }: Running, value: unknown, body?: unknown): Promise<RowRequest> {
  made += 1;
  const key = `row-${made}`;
  await stoa.data.set(operatorCaller('alice'), 'rows', key, value);
  return { path: `/v1/data/rows/${key}`, body };
}

export const dataRows: Record<string, Row> = {
  'GET /v1/data': { request: () => ({ path: '/v1/data' }), status: listing },
  'GET /v1/namespaces/{namespace}': { request: () => ({ path: '/v1/namespaces/rows' }), status: listing },
  'PATCH /v1/namespaces/{namespace}': {
    request: () => ({ path: '/v1/namespaces/rows', body: { embed: false } }),
    status: writing,
  },
  'GET /v1/data/{namespace}': { request: () => ({ path: '/v1/data/rows?values=1' }), status: listing },
  'POST /v1/data/{namespace}': {
    request: () => ({ path: '/v1/data/rows', body: { set: { batch: 1 }, get: ['batch'] } }),
    status: writing,
  },
  'DELETE /v1/data/{namespace}': { request: () => ({ path: '/v1/data/cleared' }), status: writing },
  'GET /v1/data/{namespace}/{key}': {
    request: (running) => document(running, 'alice only'),
    status: reading,
  },
  'PUT /v1/data/{namespace}/{key}': {
    request: () => {
      made += 1;
      return { path: `/v1/data/rows/row-${made}`, body: { value: 1 } };
    },
    status: making,
  },
  // Bob has no such document: his own begins at 0.
  'PATCH /v1/data/{namespace}/{key}': {
    request: (running) => document(running, 1, { increment: 1 }),
    status: statuses(200, 200, 201, 403, 200, 401),
  },
  'GET /v1/documents': { request: () => ({ path: '/v1/documents' }), status: listing },
  // The documents belong to alice: bob may not import them.
  'POST /v1/documents': {
    request: () => ({
      path: '/v1/documents',
      body: {
        documents: [
          { userId: 'alice', namespace: 'imported', key: 'k', value: 1, createdAt: '2026-01-01T00:00:00Z' },
        ],
      },
    }),
    status: statuses(200, 200, 403, 403, 403, 401),
  },
  'POST /v1/documents/lines': {
    request: () => ({
      path: '/v1/documents/lines?dry_run=true',
      headers: { 'content-type': 'application/json' },
      body: {},
    }),
    // Callers that may import get past the permissions, to the error about the content type.
    status: statuses(415, 415, 415, 403, 403, 401),
  },
  'DELETE /v1/data/{namespace}/{key}': {
    request: (running) => document(running, 1),
    status: statuses(204, 204, 404, 403, 204, 401),
  },
};
