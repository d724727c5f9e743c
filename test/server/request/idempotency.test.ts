import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../../src/core/caller.js';
import { sharedHome } from '../../servers/shared.js';
import { Running } from '../running.js';

let running: Running;
let nowMs = Date.now();
beforeAll(async () => {
  running = await Running.start({ limits: { agentsPerUserMax: 1_000 }, clock: () => nowMs });
});
afterAll(() => running.stop());

let keys = 0;
function newKey(): string {
  keys += 1;
  return `key-${keys}`;
}

function create(key: string, name: string, as = running.alice) {
  return running.ask('POST', '/v1/agents', { as, body: { name }, headers: { 'idempotency-key': key } });
}

test('the same key and body get the same answer, and make one agent', async () => {
  const key = newKey();
  const first = await create(key, 'once');
  const second = await create(key, 'once');
  expect(second.status).toBe(201);
  expect(second.text).toBe(first.text);
  const { json } = await running.ask('GET', '/v1/agents?name=once', { as: running.alice });
  expect(json.items).toHaveLength(1);
});

test('retries at the same time make one agent', async () => {
  const key = newKey();
  const replies = await Promise.all(Array.from({ length: 20 }, () => create(key, 'together')));
  expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
  expect(
    (await running.ask('GET', '/v1/agents?name=together', { as: running.alice })).json.items,
  ).toHaveLength(1);
});

test('the same key with another body is 422', async () => {
  const key = newKey();
  await create(key, 'first');
  expect((await create(key, 'second')).json).toMatchObject({ code: 'idempotency_mismatch', status: 422 });
});

test('the same key on another path is 422', async () => {
  const key = newKey();
  const { json } = await create(key, 'path');
  const reply = await running.ask('POST', `/v1/agents/${json.agent_id}/sessions`, {
    as: running.alice,
    body: { name: 'path' },
    headers: { 'idempotency-key': key },
  });
  expect(reply.status).toBe(400);
  await running.ask('POST', `/v1/agents/${json.agent_id}/start`, { as: running.alice });
  const sessions = await running.ask('POST', `/v1/agents/${json.agent_id}/sessions`, {
    as: running.alice,
    body: {},
    headers: { 'idempotency-key': key },
  });
  expect(sessions.status).toBe(422);
});

test('a route that would act twice refuses a key, and a route that is safe to repeat ignores it', async () => {
  const headers = { 'idempotency-key': newKey() };
  const { json } = await create(newKey(), 'restarted');
  const ask = (verb: string) =>
    running.ask('POST', `/v1/agents/${json.agent_id}/${verb}`, { as: running.alice, headers });
  expect((await ask('start')).json).toMatchObject({
    status: 400,
    detail: 'The request has an Idempotency-Key, which this route does not support.',
  });
  expect((await ask('heartbeat')).status).toBe(200);
});

test('two users may use the same key', async () => {
  const key = newKey();
  const first = await create(key, 'mine');
  const second = await create(key, 'mine', running.bob);
  expect(second.status).toBe(201);
  expect(second.json.agent_id).not.toBe(first.json.agent_id);
});

test.each(['directory', 'PostgreSQL'])('two agents with one key claim two tasks: %s', async (home) => {
  const server = home === 'directory' ? running : await Running.start((await sharedHome()).options);
  const ask = async (path: string, body: unknown, headers: Record<string, string> = {}) =>
    (await server.ask('POST', path, { as: server.alice, body, headers })).json;
  try {
    const workspace = await ask('/v1/workspaces', { name: 'two agents' });
    const project = await ask(`/v1/workspaces/${workspace.id}/projects`, { name: 'p' });
    const session = await ask(`/v1/projects/${project.id}/sessions`, {});
    for (const command of ['one', 'two']) await ask(`/v1/sessions/${session.id}/tasks`, { command });
    const key = newKey();
    const claim = async (agent: string) => {
      const headers = { 'idempotency-key': key, 'stoa-agent': agent };
      return (await ask(`/v1/projects/${project.id}/tasks/claim`, {}, headers)).task;
    };
    const first = await claim('heron');
    expect(first).toMatchObject({ command: 'one', claimed_by: 'heron' });
    expect(await claim('otter')).toMatchObject({ command: 'two', claimed_by: 'otter' });
    expect(await claim('heron')).toEqual(first);
  } finally {
    if (server !== running) await server.stop();
  }
});

test('a kept answer is not shown to a token with a smaller scope', async () => {
  const headers = { 'idempotency-key': newKey() };
  const narrow = (
    await running.stoa.identity.createToken(
      operatorCaller(),
      'alice',
      { scopes: { namespaces: ['notes'] } },
      null,
    )
  ).token;
  const body = { operations: [{ op: 'data.increment', namespace: 'payroll', key: 'total', by: 987654321 }] };
  const first = await running.ask('POST', '/v1/commit', { as: running.alice, body, headers });
  expect(first.json).toMatchObject({ ok: true });
  const told = await running.ask('POST', '/v1/commit', { as: narrow, body, headers });
  expect(told.json).toMatchObject({ status: 403 });
  expect(told.text).not.toContain('987654321');
});

test('a refused request uses up no key', async () => {
  const key = newKey();
  expect((await create(key, '')).status).toBe(400);
  expect((await create(key, 'good')).status).toBe(201);
});

test('a token is not shown twice: the repeat is 409', async () => {
  const headers = { 'idempotency-key': newKey() };
  const first = await running.ask('POST', '/v1/users/dora/tokens', {
    as: running.operator,
    body: { name: 'a' },
    headers,
  });
  expect(first.status).toBe(201);
  const second = await running.ask('POST', '/v1/users/dora/tokens', {
    as: running.operator,
    body: { name: 'a' },
    headers,
  });
  expect(second.json).toMatchObject({ code: 'idempotency_unrepeatable', status: 409 });
  expect(
    (await running.ask('GET', '/v1/users/dora/tokens', { as: running.operator })).json.items,
  ).toHaveLength(1);
});

test.each(['', 'k'.repeat(256)])('a key of a wrong length is 400', async (key) => {
  expect((await create(key, 'x')).status).toBe(400);
});

test('a key can be used again after a day', async () => {
  const key = newKey();
  const first = await create(key, 'day');
  nowMs += 24 * 3_600_000 + 1;
  const second = await create(key, 'another day');
  expect(second.status).toBe(201);
  expect(second.json.agent_id).not.toBe(first.json.agent_id);
});

test('a backup that is asked for again under its key is made once', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-backup-'));
  const ask = (key: string) =>
    running.ask('POST', '/v1/backups', {
      as: running.operator,
      body: { directory },
      headers: { 'idempotency-key': key },
    });
  const first = await ask('nightly');
  expect(first.status).toBe(201);
  expect((await ask('nightly')).text).toBe(first.text);
  expect(await readdir(directory)).toHaveLength(1);
  await ask('weekly');
  expect(await readdir(directory)).toHaveLength(2);
  await rm(directory, { recursive: true });
});

test('a backup that failed can be tried again under its key', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-backup-'));
  const ask = () =>
    running.ask('POST', '/v1/backups', {
      as: running.operator,
      body: { directory, kind: 'incremental' },
      headers: { 'idempotency-key': 'step' },
    });
  expect((await ask()).status).toBeGreaterThanOrEqual(400);
  await running.ask('POST', '/v1/backups', { as: running.operator, body: { directory } });
  expect((await ask()).json).toMatchObject({ kind: 'incremental' });
  await rm(directory, { recursive: true });
});
