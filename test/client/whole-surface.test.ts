import { afterAll, beforeAll, expect, test } from 'vitest';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { Running } from '../server/running.js';

let running: Running;
let operator: Stoa;
let alice: Stoa;
beforeAll(async () => {
  running = await Running.start();
  operator = new Stoa({ url: running.url, token: running.operator });
  alice = new Stoa({ url: running.url, token: running.alice });
});
afterAll(() => running.stop());

test('a signed agent works on its tasks, reads its record and commits', async () => {
  const { agent_id } = await alice.agents.create({ name: 'scout' });
  await alice.agents.start(agent_id);
  const scout = alice.agent(await AgentKeys.generate());
  await scout.register({ name: 'scout' });
  await alice.agents.link(agent_id, await scout.consent(agent_id));
  const workspace = await scout.workspaces.create({ name: 'site' });
  const project = await scout.projects.create(workspace.id, { name: 'api' });
  const session = await scout.sessions.create(project.id, { status: 'active' });
  const made = await scout.tasks.create(session.id, { command: 'make' });
  const { lease } = await scout.agents.heartbeat(agent_id);
  const claim = await scout.tasks.claim(project.id);
  claim?.abandon();
  // As after a crash: nothing but the id and the fence is left.
  const done = await scout.tasks.complete(made.id, { fence: claim?.fence ?? 0 }, { fence: lease.fence });
  expect(done.status).toBe('completed');
  expect(
    await scout.commit({ operations: [{ op: 'data.set', key: 'a', value: 1 }] }, { fence: lease.fence }),
  ).toMatchObject({ ok: true });
  await expect(scout.data().set('a', 2, { fence: lease.fence - 1 })).rejects.toMatchObject({
    code: 'fenced',
  });
});

test('a caller with a token makes rooms and gets direct messages as they come', async () => {
  const { id } = await alice.rooms.create({ name: 'planning' });
  await alice.room(id).post('the heron has landed');
  expect((await alice.rooms.list()).items.map((room) => room.id)).toContain(id);
  const keys = await AgentKeys.generate();
  const other = operator.agent(keys);
  const to = await other.register();
  await alice.inbox.send({ to, body: 'hello' });
  const [message] = (await other.direct.read()).items;
  const stop = new AbortController();
  const inbox = alice.inbox.stream({ signal: stop.signal });
  const next = inbox.next();
  await new Stoa({ url: running.url, token: running.bob }).inbox.send({
    to: message?.from ?? '',
    body: 'back',
  });
  expect((await next).value).toMatchObject({ body: 'back' });
  stop.abort();
});

test('the operator inspects the store, unblocks, exports and imports', async () => {
  expect((await operator.admin.listFamilies()).items.length).toBeGreaterThan(0);
  expect(await operator.admin.examine()).toMatchObject({ remaining: 0 });
  expect((await operator.admin.rekey()).key_id).toBeTypeOf('string');
  await expect(operator.admin.blocks.delete({ ip: '203.0.113.7' })).rejects.toMatchObject({
    code: 'not_found',
  });
  await alice.data('kept').set('k', 'v');
  const chunks: Uint8Array[] = [];
  for await (const bytes of operator.admin.export({ domains: ['data'] })) chunks.push(bytes);
  const report = await operator.admin.import(Buffer.concat(chunks).toString(), { dry_run: true });
  expect(report).toMatchObject({ dry_run: true, conflicts_total: 0, bad_total: 0 });
  expect(report.records).toBeGreaterThan(0);
});
