import { kernelOf } from '../../kernel-of.js';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createLogger } from '../../../src/server/telemetry/log.js';
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
  ])
    expect(text).toMatch(new RegExp(`^${name}`, 'm'));
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
  await expect.poll(lines, { timeout: 10_000 }).toMatch(/^stoa_leases 1$/m);
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
