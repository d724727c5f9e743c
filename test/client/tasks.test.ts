/** Workspaces and tasks through the client, over a server on a port. */
import { randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type ClaimedTask, LostEvent, Stoa } from '../../src/client/index.js';
import { type Stoa as OpenedStoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';

let opened: OpenedStoa;
let stoa: Stoa;
let stop: () => Promise<void>;
let workspaceId: string;
let projectId: string;
let sessionId: string;

beforeAll(async () => {
  opened = await openStoa({ data: 'unused', engine: 'memory', sweepIntervalMs: 50 });
  const app = createApp(opened);
  await app.listen({ host: '127.0.0.1', port: 0 });
  // A TCP server that listens has an AddressInfo.
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  stoa = new Stoa({ url, token: opened.operatorToken, user: 'ada', agent: 'worker' });
  stop = async () => {
    await stopApp(app, 5);
    await opened.close();
  };
  const workspace = await stoa.workspaces.create({
    name: 'site',
    project_path: '/srv/site',
    claude_key: 'sk-1',
  });
  workspaceId = workspace.id;
});
// A task that one test leaves must not be claimed by the next.
beforeEach(async () => {
  projectId = (await stoa.projects.create(workspaceId, { name: randomUUID() })).id;
  sessionId = (await stoa.sessions.create(projectId, { status: 'active' })).id;
});
afterAll(() => stop());

async function claimNew(settings: { leaseSeconds?: number } = {}): Promise<ClaimedTask> {
  await stoa.tasks.create(sessionId, { command: 'work' });
  const claim = await stoa.tasks.claim(projectId, settings);
  if (claim === null) throw new Error('nothing was ready');
  return claim;
}

test('a claim in the name of another agent is reported in that name', async () => {
  await stoa.tasks.create(sessionId, { command: 'work' });
  const claim = await stoa.tasks.claim(projectId, { agentId: 'somebody-else' });
  expect(claim?.task.claimed_by).toBe('somebody-else');
  await expect(
    stoa.tasks.complete(claim?.task.id as string, { fence: claim?.fence ?? 0 }),
  ).rejects.toMatchObject({
    code: 'forbidden',
  });
  expect((await claim?.complete())?.status).toBe('completed');
});

test('workspaces, projects and sessions are made, changed, listed, deleted and restored', async () => {
  const workspace = await stoa.workspaces.create({ name: 'second' }, { idempotencyKey: 'once' });
  expect(await stoa.workspaces.create({ name: 'second' }, { idempotencyKey: 'once' })).toEqual(workspace);
  expect(await stoa.workspaces.update(workspace.id, { status: 'inactive' }, { ifVersion: 1 })).toMatchObject({
    version: 2,
  });
  await expect(
    stoa.workspaces.update(workspace.id, { status: 'active' }, { ifVersion: 1 }),
  ).rejects.toMatchObject({ code: 'version_conflict' });
  expect((await stoa.workspaces.list({ status: 'inactive' })).items.map(({ name }) => name)).toEqual([
    'second',
  ]);
  const project = await stoa.projects.create(workspace.id, { name: 'p' });
  await stoa.projects.delete(project.id);
  expect((await stoa.projects.list(workspace.id, { deleted: true })).items).toHaveLength(1);
  expect(await stoa.projects.restore(project.id)).toMatchObject({ deleted_at: null });
  const session = await stoa.sessions.create(project.id);
  await stoa.sessions.update(session.id, { status: 'active' });
  expect((await stoa.sessions.active(project.id)).id).toBe(session.id);
  await stoa.sessions.delete(session.id);
  await expect(stoa.sessions.active(project.id)).rejects.toMatchObject({ code: 'not_found' });
  await stoa.workspaces.delete(workspace.id);
  await stoa.workspaces.purge(workspace.id);
  await expect(stoa.workspaces.get(workspace.id, { deleted: true })).rejects.toMatchObject({
    code: 'not_found',
  });
});

test('a claimed task is completed, and completing it again is not an error', async () => {
  const claim = await claimNew();
  expect(claim.task).toMatchObject({ status: 'running', claimed_by: 'worker' });
  const done = await claim.complete({ output: 'ok' });
  expect(done).toMatchObject({ status: 'completed', output: 'ok' });
  expect(await claim.complete({ output: 'ok' })).toEqual(done);
  expect(await stoa.tasks.claim(projectId)).toBeNull();
});

test('a waiting claim gets the task that is made meanwhile', async () => {
  const waiting = stoa.tasks.claim(projectId, { wait: 30 });
  await stoa.tasks.create(sessionId, { command: 'awaited' });
  const claim = await waiting;
  expect(claim?.task.command).toBe('awaited');
  await claim?.complete();
});

test('heartbeats keep a claim for longer than its lease', async () => {
  // Long enough that a busy machine is not late with three heartbeats in a row.
  const claim = await claimNew({ leaseSeconds: 2 });
  const lost: LostEvent[] = [];
  claim.addEventListener('lost', (event) => lost.push(event as LostEvent));
  const endMs = Date.now() + 5_000;
  await expect.poll(() => Date.now()).toBeGreaterThan(endMs);
  expect((await stoa.tasks.get(claim.task.id)).attempts).toBe(0);
  expect(await claim.complete()).toMatchObject({ status: 'completed' });
  expect(lost).toEqual([]);
});

test('a lost claim fires "lost", and its signal is aborted', async () => {
  const claim = await claimNew({ leaseSeconds: 0.6 });
  const lost = new Promise<LostEvent>((resolve) =>
    claim.addEventListener('lost', (event) => resolve(event as LostEvent)),
  );
  await stoa.tasks.cancel(claim.task.id, { reason: 'not needed' });
  expect((await lost).error.code).toBe('fenced');
  expect(claim.signal.aborted).toBe(true);
  await expect(claim.complete()).rejects.toMatchObject({ code: 'fenced' });
});

test('an abandoned claim is free for others again', async () => {
  const claim = await claimNew({ leaseSeconds: 0.3 });
  claim.abandon();
  const again = await stoa.tasks.claim(projectId, { wait: 10 });
  expect(again?.task).toMatchObject({ id: claim.task.id, attempts: 1 });
  expect(await again?.fail({ error: 'no', retry: true })).toMatchObject({ status: 'pending', attempts: 2 });
  await stoa.tasks.delete(claim.task.id);
});
