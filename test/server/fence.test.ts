import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../src/identity/caller.js';
import { Running } from './running.js';

let running: Running;
let agentId: string;
let nowMs = Date.now();

beforeAll(async () => {
  running = await Running.start({ clock: () => nowMs });
  agentId = (await running.stoa.registry.createAgent(operatorCaller('alice'), { name: 'signed' })).agent_id;
});
afterAll(() => running.stop());

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
