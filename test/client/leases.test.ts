/**
 * Leases of agents and claims on tasks, renewed by the client: through a restart of the server, and lost in
 * time.
 */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { LostEvent, Stoa } from '../../src/client/index.js';
import { operatorCaller } from '../../src/core/caller.js';
import type { Limits } from '../../src/core/settings/limits.js';
import { type Stoa as OpenedStoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';
import { eventually, until } from '../until.js';

let directory: string;
let opened: OpenedStoa;
let stop: () => Promise<void>;
let port = 0;

async function start(limits: Partial<Limits> = { leaseSeconds: 3, leaseGraceSeconds: 1 }): Promise<string> {
  opened = await openStoa({ data: directory, sweepIntervalMs: 50, limits });
  const app = createApp(opened);
  const url = await app.listen({ host: '127.0.0.1', port });
  port = Number(new URL(url).port);
  stop = async () => {
    await stopApp(app, 5);
    await opened.close();
  };
  return url;
}

beforeEach(async () => {
  port = 0;
  directory = await mkdtemp(join(tmpdir(), 'stoa-leases-'));
});
afterEach(async () => {
  await stop();
  await rm(directory, { recursive: true });
});

/** A project with one task. */
async function withTask(stoa: Stoa): Promise<string> {
  const workspace = await stoa.workspaces.create({ name: 'w' });
  const project = await stoa.projects.create(workspace.id, { name: 'p' });
  const session = await stoa.sessions.create(project.id, { status: 'active' });
  await stoa.tasks.create(session.id, { command: 'work' });
  return project.id;
}

test('leases and claims survive a restart of the server, with the same fencing numbers', async () => {
  const url = await start();
  const stoa = new Stoa({
    url,
    token: opened.operatorToken,
    user: 'ada',
    agent: 'worker',
    retryDelayMs: 20,
    attemptsMax: 20,
  });
  const { agent_id: id } = await stoa.agents.create({ name: 'scout' });
  const lost: unknown[] = [];
  const lease = await stoa.agents.keepAlive(id, { onLost: (reason) => lost.push(reason) });
  const claim = await stoa.tasks.claim(await withTask(stoa), { leaseSeconds: 3 });
  claim?.addEventListener('lost', (event) => lost.push(event));
  await stop();
  await start();
  const before = lease.lease.expires_at;
  await eventually(() => expect(lease.lease.expires_at > before).toBe(true));
  expect(lease.fence).toBe(1);
  await stoa.agents.update(id, { labels: { after: 'restart' } }, { fence: lease.fence });
  expect(await claim?.complete({ output: 'done' })).toMatchObject({ status: 'completed', attempts: 0 });
  expect(lost).toEqual([]);
  lease.stop();
}, 60_000);

test('a lease is lost in time when the server no longer answers, also while a request hangs', async () => {
  const url = await start();
  let hangs = false;
  const hanging: typeof fetch = (input, init) =>
    hangs
      ? new Promise((_resolve, reject) =>
          init?.signal?.addEventListener('abort', () => reject(new Error('aborted'))),
        )
      : fetch(input, init);
  const stoa = new Stoa({ url, token: opened.operatorToken, user: 'ada', agent: 'worker', fetch: hanging });
  const { agent_id: id } = await stoa.agents.create({ name: 'scout' });
  const lease = await stoa.agents.keepAlive(id);
  const claim = await stoa.tasks.claim(await withTask(stoa), { leaseSeconds: 1 });
  const events: LostEvent[] = [];
  for (const held of [lease, claim])
    held?.addEventListener('lost', (event) => events.push(event as LostEvent));
  hangs = true;
  await eventually(() => expect(events).toHaveLength(2));
  expect(events.map(({ type, error }) => [type, error.code])).toEqual([
    ['lost', 'fenced'],
    ['lost', 'fenced'],
  ]);
  expect([lease.signal.aborted, claim?.signal.aborted]).toEqual([true, true]);
}, 60_000);

test('a claim whose answer arrives after the end of its lease is not given to the caller', async () => {
  const url = await start();
  const answered: string[] = [];
  const slow: typeof fetch = async (input, init) => {
    const answer = await fetch(input, init);
    if (!String(input).endsWith('/tasks/claim') || answered.length > 0) return answer;
    const { task } = (await answer.clone().json()) as { task: { id: string } };
    answered.push(task.id);
    const isReady = async () =>
      (await opened.workspaces.getTask(operatorCaller('ada'), task.id)).status === 'pending';
    await until(isReady);
    return answer;
  };
  const stoa = new Stoa({ url, token: opened.operatorToken, user: 'ada', agent: 'worker', fetch: slow });
  const project = await withTask(stoa);
  expect(await stoa.tasks.claim(project, { leaseSeconds: 1 })).toBe(null);
  const claim = await stoa.tasks.claim(project, { leaseSeconds: 60 });
  expect(claim).toMatchObject({ task: { id: answered[0], status: 'running' }, fence: 2 });
  claim?.abandon();
}, 60_000);

test('a clock of this machine that is wrong by an hour does not matter', async () => {
  const url = await start();
  const stoa = new Stoa({ url, token: opened.operatorToken, user: 'ada', agent: 'worker' });
  const { agent_id: id } = await stoa.agents.create({ name: 'scout' });
  for (const skewMs of [-3_600_000, 3_600_000]) {
    const later = (at: string): string => new Date(Date.parse(at) + skewMs).toISOString();
    const real = Date.now.bind(Date);
    // Server and client share this process: the lease is as a server with another clock answers it.
    const answers: typeof fetch = async (input, init) => {
      const answer = await fetch(input, init);
      const body = (await answer.json()) as { lease: { expires_at: string }; last_heartbeat_at?: string };
      body.lease.expires_at = later(body.lease.expires_at);
      if (body.last_heartbeat_at !== undefined) body.last_heartbeat_at = later(body.last_heartbeat_at);
      return Response.json(body, { status: answer.status });
    };
    const skewed = new Stoa({
      url,
      token: opened.operatorToken,
      user: 'ada',
      agent: 'worker',
      fetch: answers,
    });
    const lost: unknown[] = [];
    const lease = await skewed.agents.keepAlive(id, {
      holder: 'skewed',
      onLost: (reason) => lost.push(reason),
    });
    const first = lease.lease.expires_at;
    await eventually(() => expect(lease.lease.expires_at > first).toBe(true));
    expect([lost, real() - Date.now() < 1_000]).toEqual([[], true]);
    lease.stop();
  }
}, 60_000);

test('a lost lease and a deleted agent are reported once, at the next heartbeat', async () => {
  const url = await start();
  const stoa = new Stoa({ url, token: opened.operatorToken, user: 'ada', agent: 'worker' });
  const { agent_id: taken } = await stoa.agents.create({ name: 'taken' });
  const { agent_id: deleted } = await stoa.agents.create({ name: 'deleted' });
  const { agent_id: stopped } = await stoa.agents.create({ name: 'stopped' });
  const lost: [string, string][] = [];
  for (const [name, id] of [
    ['taken', taken],
    ['deleted', deleted],
  ] as const)
    await stoa.agents.keepAlive(id, { onLost: ({ code }) => lost.push([name, code]) });
  const end = new AbortController();
  const quiet = await stoa.agents.keepAlive(stopped, {
    onLost: () => lost.push(['stopped', '']),
    signal: end.signal,
  });
  await opened.registry.releaseLease(operatorCaller('ada'), taken);
  await stoa.agents.heartbeat(taken, { holder: 'second' });
  await stoa.agents.update(deleted, { status: 'error' });
  await stoa.agents.delete(deleted);
  end.abort();
  await eventually(() =>
    expect(lost.toSorted()).toEqual([
      ['deleted', 'not_found'],
      ['taken', 'fenced'],
    ]),
  );
  expect(quiet.signal.aborted).toBe(false);
}, 60_000);

test('a lease outlives the presence that the calls of its agent had given it', async () => {
  const url = await start({ agentPresenceSeconds: 6, leaseSeconds: 1, leaseGraceSeconds: 0.5 });
  const scout = new Stoa({ url, token: opened.operatorToken, user: 'ada', agent: 'scout' });
  await scout.data('notes').set('plan', 1);
  const lost: unknown[] = [];
  const lease = await scout.agents.keepAlive('scout', { onLost: (reason) => lost.push(reason) });
  const first = Date.parse(lease.lease.expires_at);
  await until(() => lost.length > 0 || Date.parse(lease.lease.expires_at) > first + 2_500);
  expect(lost).toEqual([]);
  lease.stop();
}, 60_000);
