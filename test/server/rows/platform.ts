import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { operatorCaller } from '../../../src/core/caller.js';
import { type Row, open, statuses } from './row.js';

const operatorOnly = statuses(200, 403, 403, 403, 403, 401);

export const platformRows: Record<string, Row> = {
  'GET /v1/users/{user}/tokens': {
    request: () => ({ path: '/v1/users/alice/tokens' }),
    status: operatorOnly,
  },
  'POST /v1/users/{user}/tokens': {
    request: () => ({ path: '/v1/users/carol/tokens', body: { name: 'test' } }),
    status: statuses(201, 403, 403, 403, 403, 401),
  },
  'DELETE /v1/users/{user}/tokens': {
    request: () => ({ path: '/v1/users/carol/tokens?token=all' }),
    status: operatorOnly,
  },
  'POST /v1/commit': {
    request: () => ({ path: '/v1/commit', body: { operations: [{ op: 'data.increment', key: 'row' }] } }),
    status: statuses(200, 200, 200, 403, 200, 401),
  },
  'GET /v1/locks': {
    request: () => ({ path: '/v1/locks' }),
    status: statuses(200, 200, 200, 200, 200, 401),
  },
  'PUT /v1/locks/{name}': {
    request: async ({ stoa }) => {
      for (const user of ['alice', 'bob'])
        await stoa.locks.release(operatorCaller(user), 'src/app.ts', { force: true });
      return { path: '/v1/locks/src%2Fapp.ts', body: {} };
    },
    status: statuses(201, 201, 201, 403, 201, 401),
  },
  'DELETE /v1/locks/{name}': {
    request: () => ({ path: '/v1/locks/free' }),
    status: statuses(200, 200, 200, 403, 200, 401),
  },
  'GET /v1/changes': {
    request: () => ({ path: '/v1/changes?limit=2' }),
    status: statuses(200, 200, 200, 200, 200, 401),
  },
  'POST /v1/console/links': {
    request: () => ({ path: '/v1/console/links' }),
    status: statuses(200, 200, 200, 200, 403, 401),
  },
  'POST /v1/console/session': {
    request: async ({ stoa }) => ({
      path: '/v1/console/session',
      body: { code: (await stoa.identity.console.createCode(operatorCaller())).token },
    }),
    status: open,
  },
  'GET /v1/console/session': {
    request: () => ({ path: '/v1/console/session' }),
    status: statuses(200, 200, 200, 200, 403, 401),
  },
  'DELETE /v1/console/session': {
    request: () => ({ path: '/v1/console/session' }),
    status: statuses(204, 204, 204, 204, 403, 401),
  },
  'GET /console': { request: () => ({ path: '/console' }), status: open },
  'GET /console/*': { request: () => ({ path: '/console/fleet' }), status: open },
  'GET /console/assets/{file}': {
    // The names of the files contain a hash.
    request: () => ({ path: '/console/assets/missing.js' }),
    status: statuses(404, 404, 404, 404, 404, 404),
  },
  'GET /v1/config': { request: () => ({ path: '/v1/config' }), status: operatorOnly },
  'POST /v1/backups/verify': {
    request: () => ({ path: '/v1/backups/verify', body: {} }),
    status: operatorOnly,
  },
  'GET /v1/find': {
    request: () => ({ path: '/v1/find?q=gate' }),
    status: statuses(200, 200, 200, 200, 200, 401),
  },
  'POST /v1/find': {
    request: () => ({ path: '/v1/find', body: { q: 'gate', filter: { status: 'open' } } }),
    status: statuses(200, 200, 200, 200, 200, 401),
  },
  'POST /v1/find/reindex': {
    request: () => ({ path: '/v1/find/reindex', body: {} }),
    status: statuses(200, 200, 200, 403, 403, 401),
  },
  'GET /v1/status': { request: () => ({ path: '/v1/status' }), status: operatorOnly },
  'POST /v1/backups': {
    request: () => ({
      path: '/v1/backups',
      body: { directory: mkdtempSync(join(tmpdir(), 'stoa-backup-')) },
    }),
    status: statuses(201, 403, 403, 403, 403, 401),
    directoryOnly: true,
  },
  'GET /v1/backups': { request: () => ({ path: '/v1/backups' }), status: operatorOnly },
  'GET /v1/export': { request: () => ({ path: '/v1/export?domains=data' }), status: operatorOnly },
  'POST /v1/import': {
    request: () => ({
      path: '/v1/import?dry_run=true',
      headers: { 'content-type': 'application/json' },
      body: {},
    }),
    // The operator gets past the permissions, to the error about the content type.
    status: statuses(415, 403, 403, 403, 403, 401),
  },
  'GET /v1/inspect': { request: () => ({ path: '/v1/inspect' }), status: operatorOnly },
  'GET /v1/inspect/{family}': {
    request: () => ({ path: '/v1/inspect/agents?limit=2' }),
    status: operatorOnly,
    directoryOnly: true,
  },
  'POST /v1/doctor': { request: () => ({ path: '/v1/doctor', body: {} }), status: operatorOnly },
  'GET /health': { request: () => ({ path: '/health' }), status: open },
  'GET /livez': { request: () => ({ path: '/livez' }), status: open },
  'GET /readyz': { request: () => ({ path: '/readyz' }), status: open },
  'GET /metrics': { request: () => ({ path: '/metrics' }), status: open },
  'GET /llms.txt': { request: () => ({ path: '/llms.txt' }), status: open },
  'GET /openapi.json': { request: () => ({ path: '/openapi.json' }), status: open },
  'GET /reference': { request: () => ({ path: '/reference' }), status: open },
  'GET /reference/errors.json': { request: () => ({ path: '/reference/errors.json' }), status: open },
  'GET /reference/reference.js': { request: () => ({ path: '/reference/reference.js' }), status: open },
  'GET /reference/reference.css': { request: () => ({ path: '/reference/reference.css' }), status: open },
};
