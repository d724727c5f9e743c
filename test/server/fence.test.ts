import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import type { EmbeddedWorkspaces } from '../../src/backends/embedded/workspaces.js';
import { operatorCaller } from '../../src/identity/caller.js';
import { userKey } from '../../src/identity/user-key.js';
import { shardOf } from '../../src/kernel/manifest.js';
import { Running } from './running.js';

let running: Running;
let agentId: string;
let nowMs = Date.now();

beforeAll(async () => {
  running = await Running.start({ clock: () => nowMs });
  agentId = (await running.stoa.registry.createAgent(operatorCaller('alice'), { name: 'signed' })).agent_id;
});
afterAll(() => running.stop());
afterEach(() => vi.restoreAllMocks());

function write(path: string, body: object, fence: number, as: string | Record<string, string> = { 'x-test-agent': agentId }) {
  return running.ask(path.endsWith('/key') ? 'PUT' : 'POST', path, { as, body, headers: { 'stoa-fence': String(fence) } });
}

test('a holder that was lost is refused in every domain, and its successor is not', async () => {
  const { lease } = await running.stoa.registry.heartbeat(operatorCaller('alice'), agentId, { holder: 'first' });
  expect((await write('/v1/data/notes/key', { value: 1 }, lease.fence)).status).toBe(201);
  nowMs += 91_000;
  for (const [path, body] of [['/v1/data/notes/key', { value: 2 }], ['/v1/data/notes', { set: { key: 2 } }], ['/v1/workspaces', { name: 'late' }], ['/v1/commit', { operations: [{ op: 'data.set', namespace: 'notes', key: 'key', value: 2 }] }]] as const) {
    expect((await write(path, body, lease.fence)).json, path).toMatchObject({ code: 'fenced', status: 409 });
  }
  expect((await running.ask('GET', '/v1/data/notes/key', { as: running.alice })).json.value).toBe(1);
  const successor = await running.stoa.registry.heartbeat(operatorCaller('alice'), agentId, { holder: 'second' });
  expect((await write('/v1/data/notes/key', { value: 3 }, successor.lease.fence)).status).toBe(200);
});

test('a number that could speak of no lease is refused, not overlooked', async () => {
  const reply = await write('/v1/data/notes/key', { value: 4 }, 1_000, running.alice);
  expect(reply.json).toMatchObject({ code: 'invalid_request', status: 400, fix: expect.stringContaining('/v1/commit') });
  expect((await running.ask('GET', '/v1/data/notes/key', { as: running.alice, headers: { 'stoa-fence': '1' } })).json.value).toBe(3);
  expect((await write(`/v1/agents/${agentId}/heartbeat`, { holder: 'second' }, 1_000, running.alice)).status).toBe(200);
});

test('a commit that checks a lease fails from the moment the lease is over', async () => {
  const { lease } = await running.stoa.registry.heartbeat(operatorCaller('alice'), agentId, { holder: 'second' });
  const commit = () =>
    running.stoa.commit.commit(operatorCaller('alice'), { checks: [{ check: 'lease', agent_id: agentId, fence: lease.fence }], operations: [{ op: 'data.increment', key: 'n' }] });
  expect(await commit()).toMatchObject({ ok: true });
  nowMs += 91_000;
  expect(await commit()).toMatchObject({ ok: false, failed: { check: 0, code: 'fenced' } });
});

/** Every lease is over right after a request was let in. */
function loseLeasesAfterAdmission(): void {
  const { registry } = running.stoa;
  const check = registry.checkFence.bind(registry);
  vi.spyOn(registry, 'checkFence').mockImplementation((caller) => {
    check(caller);
    nowMs += 91_000;
  });
}

test('a lease that is lost between the door and the transaction refuses the write', async () => {
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
    ['POST', '/v1/commit', { operations: [{ op: 'data.set', namespace: 'notes', key: 'key', value: 'late' }] }],
  ] as const;
  for (const [method, path, body] of writes) {
    const { lease } = await running.stoa.registry.heartbeat(alice, agentId, { holder: `holder of ${method} ${path}` });
    const reply = await running.ask(method, path, { as: { 'x-test-agent': agentId }, body, headers: { 'stoa-fence': String(lease.fence) } });
    expect(reply.status, `${method} ${path} ${reply.text}`).toBe(409);
    expect(reply.text).toContain('below the lease');
  }
  expect((await running.ask('GET', '/v1/data/notes/key', { as: running.alice })).json.value).toEqual(before);
  expect((await running.stoa.workspaces.listWorkspaces(alice)).items.map(({ name }) => name)).not.toContain('late');
});

test('a claim that waited for a task is refused when the lease was lost meanwhile', async () => {
  const alice = operatorCaller('alice');
  const workspace = await running.stoa.workspaces.createWorkspace(alice, { name: 'waiting' });
  const project = await running.stoa.workspaces.createProject(alice, workspace.id, { name: 'waiting' });
  const session = await running.stoa.workspaces.createSession(alice, project.id, { status: 'active' });
  const { lease } = await running.stoa.registry.heartbeat(alice, agentId, { holder: 'waiting' });
  const { waiters } = running.stoa.workspaces.port as EmbeddedWorkspaces;
  const claiming = write(`/v1/projects/${project.id}/tasks/claim`, { wait: 30 }, lease.fence);
  await vi.waitFor(() => expect(waiters.size).toBe(1));
  nowMs += 91_000;
  const task = await running.stoa.workspaces.createTask(alice, session.id, { command: 'once' });
  expect((await claiming).json).toMatchObject({ code: 'fenced', status: 409 });
  expect((await running.stoa.workspaces.getTask(alice, task.id)).status).toBe('pending');
});

test('messages look at a lease that lies in another shard', async () => {
  const sharded = await Running.start({ clock: () => nowMs, shards: shardsWithAliceOutside() });
  try {
    const alice = operatorCaller('alice');
    const { agent_id } = await sharded.stoa.registry.createAgent(alice, { name: 'signed' });
    const { lease } = await sharded.stoa.registry.heartbeat(alice, agent_id, { holder: 'first' });
    const caller = { ...alice, kind: 'user' as const, agentId: agent_id, fence: lease.fence };
    const { messaging, commit } = sharded.stoa;
    const room = await messaging.rooms.find('global');
    const post = () => sharded.stoa.fenced(caller).messaging.rooms.post(caller, room, { body: 'hello', pid: '' }, null);
    const commitPost = () => commit.commit(caller, { operations: [{ op: 'room.post', room: 'global', body: 'hello' }] });
    await post();
    expect(await commitPost()).toMatchObject({ ok: true });
    // Not yet on disk, and counted all the same.
    const released = sharded.stoa.registry.releaseLease(alice, agent_id);
    await expect(post()).rejects.toMatchObject({ code: 'fenced' });
    await expect(commitPost()).rejects.toMatchObject({ code: 'fenced' });
    await released;
    expect((await messaging.rooms.read(room, { beforeMs: null, limit: 10 }, 0, AbortSignal.timeout(5_000))).items).toHaveLength(2);
  } finally {
    await sharded.stop();
  }
});

/** Rooms are in shard 0. */
function shardsWithAliceOutside(): number {
  const shards = [2, 3, 4, 5].find((count) => shardOf(userKey('alice'), count) !== 0);
  if (shards === undefined) throw new Error('alice is in shard 0 whatever their number');
  return shards;
}
