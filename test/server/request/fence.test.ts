import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import type { DirectoryWorkspaces } from '../../../src/homes/directory/workspaces/workspaces.js';
import { type Caller, operatorCaller } from '../../../src/core/caller.js';
import { userKey } from '../../../src/identity/user-key.js';
import { shardOf } from '../../../src/homes/directory/kernel/directory/manifest.js';
import { checkFenceFromOutside } from '../../../src/homes/directory/fence.js';
import { commitFailed } from '../../../src/homes/directory/kernel/refusals.js';
import { openStoa } from '../../../src/index.js';
import { kernelOf } from '../../kernel-of.js';
import { Running } from '../running.js';
import { writtenPort } from '../../../src/messaging/conformance/kit/written-port.js';
import { eventually } from '../../until.js';
import { projectOf } from './project-of.js';

let running: Running;
let agentId: string;
let nowMs = Date.now();

beforeAll(async () => {
  running = await Running.start({ clock: () => nowMs });
  agentId = (await running.stoa.registry.createAgent(operatorCaller('alice'), { name: 'signed' })).agent_id;
});
afterAll(() => running.stop());
afterEach(() => vi.restoreAllMocks());

function write(
  path: string,
  body: object,
  fence: number,
  as: string | Record<string, string> = { 'x-test-agent': agentId },
) {
  return running.ask(path.endsWith('/key') ? 'PUT' : 'POST', path, {
    as,
    body,
    headers: { 'stoa-fence': String(fence) },
  });
}

test('a holder that was lost is refused in every domain, and its successor is not', async () => {
  const { lease } = await running.stoa.registry.heartbeat(operatorCaller('alice'), agentId, {
    holder: 'first',
  });
  expect((await write('/v1/data/notes/key', { value: 1 }, lease.fence)).status).toBe(201);
  nowMs += 91_000;
  for (const [path, body] of [
    ['/v1/data/notes/key', { value: 2 }],
    ['/v1/data/notes', { set: { key: 2 } }],
    ['/v1/workspaces', { name: 'late' }],
    ['/v1/commit', { operations: [{ op: 'data.set', namespace: 'notes', key: 'key', value: 2 }] }],
  ] as const) {
    expect((await write(path, body, lease.fence)).json, path).toMatchObject({ code: 'fenced', status: 409 });
  }
  expect((await running.ask('GET', '/v1/data/notes/key', { as: running.alice })).json.value).toBe(1);
  const successor = await running.stoa.registry.heartbeat(operatorCaller('alice'), agentId, {
    holder: 'second',
  });
  expect((await write('/v1/data/notes/key', { value: 3 }, successor.lease.fence)).status).toBe(200);
});

test('a fence on a request without a lease is refused, not ignored', async () => {
  const reply = await write('/v1/data/notes/key', { value: 4 }, 1_000, running.alice);
  expect(reply.json).toMatchObject({
    code: 'invalid_request',
    status: 400,
    fix: expect.stringContaining('/v1/commit'),
  });
  expect(
    (await running.ask('GET', '/v1/data/notes/key', { as: running.alice, headers: { 'stoa-fence': '1' } }))
      .json.value,
  ).toBe(3);
  expect(
    (
      await running.ask('POST', '/room/global', {
        as: running.alice,
        body: { body: 'late' },
        headers: { 'stoa-fence': '1' },
      })
    ).status,
  ).toBe(400);
  expect(
    (await running.ask('POST', '/mcp', { as: running.alice, body: {}, headers: { 'stoa-fence': '1' } })).json,
  ).toMatchObject({ code: 'invalid_request', status: 400 });
  expect(
    (await write(`/v1/agents/${agentId}/heartbeat`, { holder: 'second' }, 1_000, running.alice)).status,
  ).toBe(200);
});

test('a commit that checks a lease fails from the moment the lease is over', async () => {
  const { lease } = await running.stoa.registry.heartbeat(operatorCaller('alice'), agentId, {
    holder: 'second',
  });
  const commit = () =>
    running.stoa.commit.commit(operatorCaller('alice'), {
      checks: [{ check: 'lease', agent_id: agentId, fence: lease.fence }],
      operations: [{ op: 'data.increment', key: 'n' }],
    });
  expect(await commit()).toMatchObject({ ok: true });
  nowMs += 91_000;
  expect(await commit()).toMatchObject({ ok: false, failed: { check: 0, code: 'fenced' } });
});

/** Every lease is over right after a request was let in. */
function loseLeasesAfterAdmission(): void {
  const { registry } = running.stoa;
  const check = registry.checkFence.bind(registry);
  vi.spyOn(registry, 'checkFence').mockImplementation(async (caller) => {
    await check(caller);
    nowMs += 91_000;
  });
}

test('a lease that is lost before the transaction refuses the write', async () => {
  const alice = operatorCaller('alice');
  const before = (await running.ask('GET', '/v1/data/notes/key', { as: running.alice })).json.value;
  const workspace = await running.stoa.workspaces.createWorkspace(alice, { name: 'fenced' });
  loseLeasesAfterAdmission();
  const writes = [
    ['PUT', '/v1/data/notes/key', { value: 'late' }],
    ['POST', '/v1/data/notes', { set: { key: 'late' } }],
    ['PATCH', '/v1/data/notes/key', { append: ['late'] }],
    ['DELETE', '/v1/data/notes/key', undefined],
    ['DELETE', '/v1/data/notes', undefined],
    ['POST', '/v1/workspaces', { name: 'late' }],
    ['POST', `/v1/workspaces/${workspace.id}/projects`, { name: 'late' }],
    ['POST', '/room/global', { body: 'late' }],
    [
      'POST',
      '/mcp',
      {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'remember', arguments: { namespace: 'notes', key: 'key', value: 'late' } },
      },
    ],
    [
      'POST',
      '/v1/commit',
      { operations: [{ op: 'data.set', namespace: 'notes', key: 'key', value: 'late' }] },
    ],
  ] as const;
  for (const [method, path, body] of writes) {
    const { lease } = await running.stoa.registry.heartbeat(alice, agentId, {
      holder: `holder of ${method} ${path}`,
    });
    const reply = await running.ask(method, path, {
      as: { 'x-test-agent': agentId },
      body,
      headers: { 'stoa-fence': String(lease.fence) },
    });
    expect(reply.status, `${method} ${path} ${reply.text}`).toBe(path === '/mcp' ? 200 : 409);
    expect(reply.text).toContain('is out of date');
  }
  expect((await running.ask('GET', '/v1/data/notes/key', { as: running.alice })).json.value).toEqual(before);
  expect((await running.stoa.workspaces.listWorkspaces(alice)).items.map(({ name }) => name)).not.toContain(
    'late',
  );
});

test('a claim that waited for a task is refused when the lease was lost meanwhile', async () => {
  const alice = operatorCaller('alice');
  const workspace = await running.stoa.workspaces.createWorkspace(alice, { name: 'waiting' });
  const project = await running.stoa.workspaces.createProject(alice, workspace.id, { name: 'waiting' });
  const session = await running.stoa.workspaces.createSession(alice, project.id, { status: 'active' });
  const { lease } = await running.stoa.registry.heartbeat(alice, agentId, { holder: 'waiting' });
  const { waiters } = running.stoa.workspaces.port as DirectoryWorkspaces;
  const claiming = write(`/v1/projects/${project.id}/tasks/claim`, { wait: 30 }, lease.fence);
  await eventually(() => expect(waiters.size).toBe(1));
  nowMs += 91_000;
  const task = await running.stoa.workspaces.createTask(alice, session.id, { command: 'once' });
  expect((await claiming).json).toMatchObject({ code: 'fenced', status: 409 });
  expect((await running.stoa.workspaces.getTask(alice, task.id)).status).toBe('pending');
});

test('a refused claim leaves the task to the next waiting caller', async () => {
  const alice = operatorCaller('alice');
  const { workspaces, registry } = running.stoa;
  const { project, session } = await projectOf(running.stoa, 'line');
  const { lease } = await registry.heartbeat(alice, agentId, { holder: 'line' });
  const { waiters } = workspaces.port as DirectoryWorkspaces;
  const late = write(`/v1/projects/${project}/tasks/claim`, { wait: 30 }, lease.fence);
  await eventually(() => expect(waiters.size).toBe(1));
  const next = running.ask('POST', `/v1/projects/${project}/tasks/claim`, {
    as: running.alice,
    body: { wait: 30 },
  });
  await eventually(() => expect(waiters.size).toBe(2));
  nowMs += 91_000;
  const task = await workspaces.createTask(alice, session, { command: 'once' });
  expect((await late).json).toMatchObject({ code: 'fenced' });
  expect((await next).json.task.id).toBe(task.id);
});

test('changes of a messaging profile and key check the lease', async () => {
  const { stoa } = running;
  const alice = operatorCaller('alice');
  const { identity } = await writtenPort(stoa.messaging).register({
    publicKey: randomBytes(32).toString('base64'),
    name: null,
    email: null,
    proven: true,
  });
  const { lease } = await stoa.registry.heartbeat(alice, agentId, { holder: 'profile' });
  const caller: Caller = { ...alice, kind: 'agent', identity: identity.id, agentId, fence: lease.fence };
  const { identities } = stoa.messaging;
  expect((await identities.updateProfile(caller, identity.id, { name: 'before' })).name).toBe('before');
  await stoa.registry.releaseLease(alice, agentId);
  await expect(identities.updateProfile(caller, identity.id, { name: 'late' })).rejects.toMatchObject({
    code: 'fenced',
  });
  expect((await stoa.messaging.identities.get(identity.id)).name).toBe('before');
});

test('the lease is checked before each write to a database without transactions', async () => {
  const alice = operatorCaller('alice');
  const stoa = await openStoa({ data: '', engine: 'memory', datastore: 'memory://' });
  try {
    const { agent_id } = await stoa.registry.createAgent(alice, { name: 'worker' });
    const { lease } = await stoa.registry.heartbeat(alice, agent_id, { holder: 'first' });
    const caller: Caller = { ...alice, kind: 'agent', agentId: agent_id, fence: lease.fence };
    const { data } = stoa;
    await data.set(caller, 'notes', 'key', 1);
    await stoa.registry.releaseLease(alice, agent_id);
    for (const late of [
      data.set(caller, 'notes', 'key', 2),
      data.increment(caller, 'notes', 'key'),
      data.delete(caller, 'notes', 'key'),
      data.clear(caller, 'notes'),
    ]) {
      await expect(late).rejects.toMatchObject({ code: 'fenced' });
    }
    expect(await data.get(caller, 'notes', 'key')).toBe(1);
  } finally {
    await stoa.close();
  }
});

test('a post checks a lease in another shard', async () => {
  const sharded = await Running.start({ clock: () => nowMs, shards: shardsWithAliceOutside() });
  try {
    const alice = operatorCaller('alice');
    const { agent_id } = await sharded.stoa.registry.createAgent(alice, { name: 'signed' });
    const { lease } = await sharded.stoa.registry.heartbeat(alice, agent_id, { holder: 'first' });
    const caller = { ...alice, kind: 'user' as const, agentId: agent_id, fence: lease.fence };
    const { messaging, commit } = sharded.stoa;
    const room = await messaging.rooms.find(null, 'global');
    const post = () =>
      messaging.rooms.post(caller, { room: 'global' }, () => ({ body: 'hello', pid: '' }), null);
    const commitPost = () =>
      commit.commit(caller, { operations: [{ op: 'room.post', room: 'global', body: 'hello' }] });
    await post();
    expect(await commitPost()).toMatchObject({ ok: true });
    // Not yet on disk, and counted all the same.
    const released = sharded.stoa.registry.releaseLease(alice, agent_id);
    await expect(post()).rejects.toMatchObject({ code: 'fenced' });
    await expect(commitPost()).rejects.toMatchObject({ code: 'fenced' });
    await released;
    expect(
      (await messaging.rooms.read(room, { beforeMs: null, limit: 10 }, 0, AbortSignal.timeout(5_000))).items,
    ).toHaveLength(2);
  } finally {
    await sharded.stop();
  }
});

test('a check reports why the shard of the lease refuses, not that too many transactions wait', async () => {
  const sharded = await Running.start({ clock: () => nowMs, shards: shardsWithAliceOutside() });
  try {
    const kernel = kernelOf(sharded.stoa);
    const refusal = commitFailed(new Error('the disk is gone'));
    vi.spyOn(kernel.storeOf(userKey('alice')), 'refusal').mockReturnValue(refusal);
    const caller = { user: 'alice', agentId: 'a'.repeat(64), fence: 1 };
    expect(() => checkFenceFromOutside(kernel, caller)).toThrow(refusal);
  } finally {
    vi.restoreAllMocks();
    await sharded.stop();
  }
});

/** Rooms are in shard 0. */
function shardsWithAliceOutside(): number {
  const shards = [2, 3, 4, 5].find((count) => shardOf(userKey('alice'), count) !== 0);
  if (shards === undefined) throw new Error('alice is in shard 0 whatever their number');
  return shards;
}
