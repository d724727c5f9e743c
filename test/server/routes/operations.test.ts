import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { kernelOf } from '../../kernel-of.js';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLogger } from '../../../src/server/telemetry/log.js';
import { version } from '../../../src/version.js';
import { Running } from '../running.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

test('metrics count requests by route, and name no id', async () => {
  const { json } = await running.ask('POST', '/v1/agents', { as: running.alice, body: { name: 'counted' } });
  await running.ask('GET', `/v1/agents/${json.agent_id}`, { as: running.alice });
  const { text, headers } = await running.ask('GET', '/metrics');
  expect(headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8');
  expect(text).toContain(
    'stoa_http_requests_total{method="GET",route="/v1/agents/{agent_id}",status="200"} 1',
  );
  expect(text).not.toContain(json.agent_id);
  expect(text).not.toContain('alice');
  for (const name of [
    'stoa_commits_total',
    'stoa_commit_group_size',
    'stoa_fsync_seconds',
    'stoa_feed_lag_commits',
    'stoa_expiry_backlog_seconds',
    'stoa_leases',
    'stoa_find_waiting',
    'stoa_find_segments',
    'stoa_find_bytes',
  ])
    expect(text).toMatch(new RegExp(`^${name}`, 'm'));
});

test('metrics describe the process, the build, the disk and the messages', async () => {
  const data = await mkdtemp(join(tmpdir(), 'stoa-metrics-'));
  const kept = await Running.start({ data, engine: 'lmdb' });
  await kept.ask('POST', '/room/global', { as: kept.alice, body: { body: 'counted' } });
  const { text } = await kept.ask('GET', '/metrics');
  await kept.stop();
  await rm(data, { recursive: true });
  const valueOf = (name: string) => Number(new RegExp(`^${name}(?:\\{.*\\})? (.+)$`, 'm').exec(text)?.[1]);
  expect(text).toMatch(
    new RegExp(`^stoa_build_info\\{version="${version}",node="${process.versions.node}",`, 'm'),
  );
  expect(valueOf('stoa_messages_posted')).toBe(1);
  expect(valueOf('stoa_process_resident_bytes')).toBeGreaterThan(valueOf('stoa_process_heap_bytes'));
  expect(valueOf('stoa_disk_size_bytes')).toBeGreaterThanOrEqual(valueOf('stoa_disk_free_bytes'));
  expect(valueOf('stoa_process_start_time_seconds') * 1_000).toBeLessThan(Date.now());
  for (const name of ['stoa_process_cpu_seconds_total', 'stoa_process_event_loop_busy_seconds_total'])
    expect(valueOf(name)).toBeGreaterThan(0);
  // A store in memory has no disk.
  expect((await running.ask('GET', '/metrics')).text).not.toContain('stoa_disk_free_bytes');
});

test('metrics count documents, agents by state, tasks by status and leases of all users', async () => {
  const counted = await Running.start();
  for (const [user, as] of [
    ['alice', counted.alice],
    ['bob', counted.bob],
  ] as const) {
    await counted.ask('PUT', '/v1/data/notes/plan', { as, body: { value: user } });
    const { json: agent } = await counted.ask('POST', '/v1/agents', { as, body: { name: `scout-${user}` } });
    await counted.ask('POST', `/v1/agents/${agent.agent_id}/heartbeat`, { as, body: {} });
    const path = `/v1/workspaces`;
    const workspace = await counted.ask('POST', path, { as, body: { name: 'w', project_path: '/srv' } });
    const project = await counted.ask('POST', `${path}/${workspace.json.id}/projects`, {
      as,
      body: { name: 'p' },
    });
    const session = await counted.ask('POST', `/v1/projects/${project.json.id}/sessions`, { as, body: {} });
    const tasks = `/v1/sessions/${session.json.id}/tasks`;
    const { json: task } = await counted.ask('POST', tasks, { as, body: { command: 'one' } });
    await counted.ask('POST', tasks, { as, body: { command: 'two' } });
    await counted.ask('POST', `/v1/tasks/${task.id}/cancel`, { as, body: {} });
  }
  const { text } = await counted.ask('GET', '/metrics');
  await counted.stop();
  for (const line of [
    'stoa_documents 2',
    'stoa_agents{state="provisioning"} 2',
    'stoa_agents{state="error"} 0',
    'stoa_tasks{status="pending"} 2',
    'stoa_tasks{status="cancelled"} 2',
    'stoa_tasks{status="running"} 0',
    'stoa_leases 2',
  ])
    expect(text.split('\n')).toContain(line);
});

test('metrics can be for callers with a token only', async () => {
  const guarded = await Running.start({}, { metricsNeedToken: true });
  const statuses = [];
  for (const as of [undefined, guarded.reader, guarded.operator])
    statuses.push((await guarded.ask('GET', '/metrics', as === undefined ? {} : { as })).status);
  expect(statuses).toEqual([401, 200, 200]);
  await guarded.stop();
});

test('leases that are live are counted, of agents and of tasks; a scrape reads no rows', async () => {
  const leased = await Running.start();
  const { json } = await leased.ask('POST', '/v1/agents', { as: leased.alice, body: { name: 'holder' } });
  const held = await leased.ask('POST', `/v1/agents/${json.agent_id}/heartbeat`, {
    as: leased.alice,
    body: { holder: 'here' },
  });
  expect(held.status).toBe(200);
  const lines = async () => (await leased.ask('GET', '/metrics')).text;
  await expect.poll(lines).toMatch(/^stoa_leases 1$/m);
  const read: string[] = [];
  const { engine } = kernelOf(leased.stoa).root;
  const range = engine.range.bind(engine);
  Object.assign(engine, {
    range: (family: string, options: { limit?: number }) => {
      // The background count continues meanwhile.
      if (options.limit !== 1 && !family.endsWith('/leases')) read.push(family);
      return range(family, options);
    },
    stats: () => read.push('stats'),
  });
  await lines();
  expect(read).toEqual([]);
  await leased.stop();
});

test('metrics measure calls to external databases', async () => {
  const outside = await Running.start({ datastore: 'memory://' });
  await outside.ask('PUT', '/v1/data/notes/secret-key', { as: outside.alice, body: { value: 1 } });
  const { text } = await outside.ask('GET', '/metrics');
  expect(text).toMatch(/^stoa_backend_seconds_count\{domain="data",backend="memory",verb="write"\} 1$/m);
  expect(text).not.toContain('secret-key');
  await outside.stop();
});

test('health has the shape that AICQ clients read', async () => {
  const { json } = await running.ask('GET', '/health');
  expect(json).toMatchObject({
    status: 'healthy',
    version: expect.any(String),
    checks: { postgres: { status: 'pass' }, redis: { status: 'pass' } },
    timestamp: expect.stringMatching(/Z$/),
  });
});

test('with a rate limit, callers see it in headers and are refused beyond it', async () => {
  const limited = await Running.start({ limits: { requestsPerMinuteMax: 3 } });
  const statuses: number[] = [];
  for (let asked = 0; asked < 5; asked += 1)
    statuses.push((await limited.ask('GET', '/v1/agents', { as: limited.alice })).status);
  expect(statuses).toEqual([200, 200, 200, 429, 429]);
  const refused = await limited.ask('GET', '/v1/agents', { as: limited.alice });
  expect(refused.headers.get('ratelimit-policy')).toBe('"default";q=3;w=60');
  expect(refused.headers.get('ratelimit')).toMatch(/^"default";r=0;t=\d+$/);
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0);
  expect((await limited.ask('GET', '/v1/agents', { as: limited.bob })).status).toBe(200);
  expect((await limited.ask('GET', '/livez')).status).toBe(200);
  await limited.stop();
});

test('without a limit no such header is sent', async () => {
  expect((await running.ask('GET', '/v1/agents', { as: running.alice })).headers.get('ratelimit')).toBeNull();
});

test('logs contain the status of answers and no secret', async () => {
  let written = '';
  const sink = new Writable({
    write(chunk, _encoding, done) {
      written += String(chunk);
      done();
    },
  });
  const logger = createLogger('debug', sink);
  const loud = await Running.start({}, { logger });
  await loud.ask('GET', '/v1/agents', { as: loud.alice });
  logger.info(
    {
      authorization: 'Bearer s3cret',
      headers: { 'x-aicq-room-key': 's3cret' },
      request: { token: 's3cret' },
    },
    'test',
  );
  await loud.stop();
  const lines = written
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toContainEqual(
    expect.objectContaining({ msg: 'answered', method: 'GET', route: '/v1/agents', status: 200 }),
  );
  expect(written).not.toContain('s3cret');
  expect(written).not.toContain(loud.alice);
});
