import { afterAll, beforeAll, expect, test } from 'vitest';
import { hasLocation } from '../../../src/server/answer/location.js';
import { routeGroups } from '../../../src/server/routes/index.js';
import { Running } from '../running.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

const ask = (method: string, path: string, body?: unknown) =>
  running.ask(method, path, { as: running.alice, body });

test('a created record is at the Location of its 201', async () => {
  const workspace = await ask('POST', '/v1/workspaces', { name: 'north', project_path: '/srv/north' });
  const project = await ask('POST', `${workspace.headers.get('location')}/projects`, { name: 'gate' });
  const session = await ask('POST', `${project.headers.get('location')}/sessions`, {});
  const task = await ask('POST', `${session.headers.get('location')}/tasks`, { command: 'map it' });
  const agent = await ask('POST', '/v1/agents', { name: 'scout' });
  for (const { status, headers, json } of [workspace, project, session, task, agent]) {
    expect(status).toBe(201);
    const found = await ask('GET', String(headers.get('location')));
    expect(found.status).toBe(200);
    expect(found.json).toMatchObject({ created_at: json.created_at });
  }
});

test('a document that a PUT or a PATCH creates is at the path of the request', async () => {
  const path = '/v1/data/notes%3Amain/~YS9i';
  const created = await ask('PUT', `${path}?`, { value: 1 });
  expect([created.status, created.headers.get('location')]).toEqual([201, path]);
  const replaced = await ask('PUT', path, { value: 2 });
  expect([replaced.status, replaced.headers.get('location')]).toEqual([200, null]);
  const counted = await ask('PATCH', '/v1/data/notes/count', { increment: 1 });
  expect([counted.status, counted.headers.get('location')]).toEqual([201, '/v1/data/notes/count']);
});

/** Operations that answer 201 without a Location, with the reason. */
const exceptions: Readonly<Record<string, string>> = {
  'backups.create': 'a backup is a directory on the server, without a path under /v1',
};

test('every operation under /v1 that creates a record answers its Location', () => {
  const without = routeGroups
    .flatMap(({ routes }) => routes)
    .filter((route) => route.path.startsWith('/v1') && 201 in route.answers && !hasLocation(route))
    .map(({ name }) => name);
  expect(without).toEqual(Object.keys(exceptions));
});
