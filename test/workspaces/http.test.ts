/** Workspaces over HTTP: what only the wire shows. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { Running } from '../server/running.js';

let running: Running;

beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

async function make(): Promise<{ workspace: string; project: string; session: string; etag: string | null }> {
  made += 1;
  const workspace = await running.ask('POST', '/v1/workspaces', {
    as: running.alice,
    body: { name: `http ${made}` },
  });
  const project = await running.ask('POST', `/v1/workspaces/${workspace.json.id}/projects`, {
    as: running.alice,
    body: { name: 'p' },
  });
  const session = await running.ask('POST', `/v1/projects/${project.json.id}/sessions`, {
    as: running.alice,
    body: {},
  });
  return {
    workspace: workspace.json.id,
    project: project.json.id,
    session: session.json.id,
    etag: workspace.headers.get('etag'),
  };
}

let made = 0;

it('the ETag is the quoted version; a stale If-Match is 412', async () => {
  const { workspace, etag } = await make();
  expect(etag).toBe('"1"');
  const first = await running.ask('PATCH', `/v1/workspaces/${workspace}`, {
    as: running.alice,
    body: { status: 'inactive' },
    headers: { 'if-match': '"1"' },
  });
  expect([first.status, first.headers.get('etag')]).toEqual([200, '"2"']);
  const second = await running.ask('PATCH', `/v1/workspaces/${workspace}`, {
    as: running.alice,
    body: { status: 'active' },
    headers: { 'if-match': '"1"' },
  });
  expect([second.status, second.json.code]).toEqual([412, 'version_conflict']);
});

it('a malformed id is 400, an unknown id is 404', async () => {
  for (const id of [
    'ws_',
    'proj_00000000-0000-7000-8000-000000000000',
    `ws_${'0'.repeat(36)}`,
    'ws_%2e%2e',
  ]) {
    const { status, json } = await running.ask('GET', `/v1/workspaces/${id}`, { as: running.alice });
    expect([status, json.detail]).toEqual([
      400,
      expect.stringContaining('Expected "ws_" followed by a UUID.'),
    ]);
  }
  expect(
    (
      await running.ask('GET', '/v1/workspaces/ws_00000000-0000-7000-8000-000000000000', {
        as: running.alice,
      })
    ).status,
  ).toBe(404);
});

it('workspaces and projects are taken by name or id, and unknown names are refused with a similar one', async () => {
  const as = running.alice;
  const ask = (method: string, path: string, body?: object) =>
    running.ask(method, path, { as, ...(body !== undefined && { body }) });
  const { json: workspace } = await ask('POST', '/v1/workspaces', { name: 'acme' });
  const { json: project } = await ask('POST', '/v1/workspaces/acme/projects', { name: 'shop' });
  expect(project.workspace_id).toBe(workspace.id);
  expect((await ask('GET', '/v1/workspaces/acme/projects')).json.items).toMatchObject([{ id: project.id }]);
  for (const name of ['acme%2Fshop', project.id])
    expect((await ask('GET', `/v1/projects/${name}`)).json.id).toBe(project.id);
  const { json: session } = await ask('POST', '/v1/projects/acme%2Fshop/sessions', {});
  const { json: task } = await ask('POST', `/v1/sessions/${session.id}/tasks`, { command: 'build' });
  expect((await ask('GET', '/v1/projects/acme%2Fshop/tasks/ready')).json.items).toMatchObject([
    { id: task.id },
  ]);
  expect((await ask('GET', '/v1/tasks?project=acme%2Fshop')).json.items).toMatchObject([{ id: task.id }]);
  expect((await ask('GET', '/v1/changes?project=acme%2Fshop&topics=task')).json.items).toMatchObject([
    { kind: 'task.created', id: task.id },
  ]);
  const { json: committed } = await ask('POST', '/v1/commit', {
    operations: [{ op: 'task.claim', project_id: 'acme/shop' }],
  });
  expect(committed.results[0].task.id).toBe(task.id);
  expect((await ask('PATCH', '/v1/projects/acme%2Fshop', { language: 'go' })).status).toBe(200);
  const near = await ask('GET', '/v1/projects/acme%2Fshp');
  expect([near.status, near.json.detail]).toEqual([
    404,
    'Unknown project "acme/shp". Did you mean "acme/shop"?',
  ]);
  expect((await ask('GET', '/v1/workspaces/acne')).json.detail).toContain('Did you mean "acme"?');
  expect((await ask('GET', '/v1/projects/a%2Fb%2Fc')).status).toBe(400);
  expect((await ask('GET', `/v1/workspaces/${'x'.repeat(101)}`)).json.detail).toContain(
    'workspaceNameCharactersMax',
  );
  expect((await running.ask('GET', '/v1/projects/acme%2Fshop', { as: running.bob })).status).toBe(404);
  await ask('DELETE', '/v1/workspaces/acme');
  expect((await ask('GET', '/v1/projects/acme%2Fshop')).status).toBe(404);
});

it('the client takes names of projects, which contain a slash', async () => {
  const client = new Stoa({ url: running.url, token: running.alice, agent: 'namer' });
  await client.workspaces.create({ name: 'named' });
  const project = await client.projects.create('named', { name: 'by client' });
  const task = await client.tasks.add('named/by client', { command: 'build' });
  expect((await client.projects.get('named/by client')).id).toBe(project.id);
  const claim = await client.tasks.claim('named/by client');
  expect(claim?.task.id).toBe(task.id);
  claim?.abandon();
});

it('a task for a project that has a new name makes the project, once', async () => {
  const add = (command: string) =>
    running.ask('POST', '/v1/projects/handover%2Fqueue/tasks', { as: running.alice, body: { command } });
  const added = await Promise.all(['one', 'two', 'three'].map(add));
  for (const { status, headers, json } of added)
    expect([status, headers.get('location')]).toEqual([201, `/v1/tasks/${json.id}`]);
  const { json } = await running.ask('GET', '/v1/tasks?project=handover%2Fqueue', { as: running.alice });
  expect(json.items.map(({ command }: { command: string }) => command).toSorted()).toEqual([
    'one',
    'three',
    'two',
  ]);
  const { json: named } = await running.ask('GET', '/v1/workspaces/handover/projects', { as: running.alice });
  expect(named.items).toHaveLength(1);
});

it('unknown fields and parameters are named', async () => {
  const { session } = await make();
  const body = await running.ask('POST', `/v1/sessions/${session}/tasks`, {
    as: running.alice,
    body: { command: 'x', colour: 'red' },
  });
  expect([body.status, body.json.detail]).toEqual([400, expect.stringContaining('colour')]);
  const query = await running.ask('GET', `/v1/sessions/${session}/tasks?sort=up`, { as: running.alice });
  expect([query.status, query.json.detail]).toEqual([400, expect.stringContaining('sort')]);
});

it('a claim without a task is 204; a claim with one has task and lease', async () => {
  const { project, session } = await make();
  expect(
    (await running.ask('POST', `/v1/projects/${project}/tasks/claim`, { as: running.alice })).status,
  ).toBe(204);
  await running.ask('POST', `/v1/sessions/${session}/tasks`, { as: running.alice, body: { command: 'x' } });
  const claim = await running.ask('POST', `/v1/projects/${project}/tasks/claim`, {
    as: running.alice,
    body: { agent_id: 'w' },
  });
  expect(claim.json).toMatchObject({
    task: { status: 'running', claimed_by: 'w' },
    lease: { fence: 1, expires_at: expect.any(String) },
  });
  const late = await running.ask('POST', `/v1/tasks/${claim.json.task.id}/complete`, {
    as: running.alice,
    body: { fence: 9 },
  });
  expect([late.status, late.json.code]).toEqual([409, 'fenced']);
});

it('the same Idempotency-Key makes one task', async () => {
  const { session } = await make();
  const create = () =>
    running.ask('POST', `/v1/sessions/${session}/tasks`, {
      as: running.alice,
      body: { command: 'x' },
      headers: { 'idempotency-key': 'one' },
    });
  const [first, second] = [await create(), await create()];
  expect(second.json).toEqual(first.json);
  expect(
    (await running.ask('GET', `/v1/sessions/${session}/tasks`, { as: running.alice })).json.items,
  ).toHaveLength(1);
});

it('a caller that disconnects while it waits gets no task', async () => {
  const { project, session } = await make();
  const gone = new AbortController();
  const claim = fetch(`${running.url}/v1/projects/${project}/tasks/claim`, {
    method: 'POST',
    headers: { authorization: `Bearer ${running.alice}`, 'content-type': 'application/json' },
    body: '{"wait":30}',
    signal: gone.signal,
  });
  const aborted = expect(claim).rejects.toThrow('aborted');
  await expect.poll(() => waiting()).toBe(1);
  gone.abort();
  await aborted;
  await expect.poll(() => waiting()).toBe(0);
  const task = await running.ask('POST', `/v1/sessions/${session}/tasks`, {
    as: running.alice,
    body: { command: 'x' },
  });
  expect((await running.ask('GET', `/v1/tasks/${task.json.id}`, { as: running.alice })).json.status).toBe(
    'pending',
  );
});

it('a server that stops answers the claims that wait', async () => {
  const stopping = await Running.start();
  const workspace = await stopping.ask('POST', '/v1/workspaces', { as: stopping.alice, body: { name: 'w' } });
  const project = await stopping.ask('POST', `/v1/workspaces/${workspace.json.id}/projects`, {
    as: stopping.alice,
    body: { name: 'p' },
  });
  const claim = stopping.ask('POST', `/v1/projects/${project.json.id}/tasks/claim`, {
    as: stopping.alice,
    body: { wait: 30 },
  });
  await expect
    .poll(() => (stopping.stoa.workspaces.port as unknown as { waiters: { size: number } }).waiters.size)
    .toBe(1);
  await stopping.stop();
  expect((await claim).status).toBe(204);
});

it('the raw rows are shown as text', async () => {
  const { workspace } = await make();
  const rows = await running.ask('GET', '/v1/inspect/indexes?limit=1000', { as: running.operator });
  const decoded = rows.json.items.map((item: { decoded: unknown }) => item.decoded);
  expect(decoded).toContainEqual({ key: `idx:workspace:owner:alice:${workspace}`, value: workspace });
});

/** How many claims wait at the directory home. */
function waiting(): number {
  // The port of this server is the one of the directory home, whose line is open to see.
  return (running.stoa.workspaces.port as unknown as { waiters: { size: number } }).waiters.size;
}
