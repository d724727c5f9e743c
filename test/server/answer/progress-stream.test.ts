import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { connect } from '../../../src/cli/connection/connection.js';
import { loadConfig } from '../../../src/core/settings/config.js';
import { Running } from '../running.js';

let running: Running;
let directory: string;
const accept = 'text/event-stream';

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'stoa-progress-'));
  running = await Running.start();
  for (let index = 0; index < 20; index += 1)
    await running.ask('PUT', `/v1/data/notes/k${index}`, { as: running.alice, body: { value: index } });
});
afterAll(async () => {
  await running.stop();
  await rm(directory, { recursive: true, force: true });
});

interface Event {
  event: string;
  data: unknown;
}

/** The whole stream, up to its end. */
async function eventsOf(path: string, body: string, contentType: string): Promise<Event[]> {
  const headers = { accept, authorization: `Bearer ${running.operator}`, 'content-type': contentType };
  const response = await fetch(running.url + path, { method: 'POST', headers, body });
  expect(response.headers.get('content-type')).toContain('text/event-stream');
  const text = await response.text();
  return [...text.matchAll(/event: (\w+)\ndata: (.*)\n\n/g)].map(([, event, data]) => ({
    event: event as string,
    data: JSON.parse(data as string) as unknown,
  }));
}

test('a backup sends its progress, and the answer is the last event', async () => {
  const events = await eventsOf(
    '/v1/backups',
    JSON.stringify({ directory: join(directory, 'events') }),
    'application/json',
  );
  expect(events[0]).toEqual({
    event: 'progress',
    data: { done: expect.any(Number), total: expect.any(Number) },
  });
  expect(events.at(-1)).toMatchObject({ event: 'done', data: { kind: 'full', reason: null } });
  const { json } = await running.ask(
    'GET',
    `/v1/backups?directory=${encodeURIComponent(join(directory, 'events'))}`,
    { as: running.operator },
  );
  expect((json.items as object[]).map((item) => ({ ...item, not_included: [] }))).toEqual([
    events.at(-1)?.data,
  ]);
});

test('the answer is the last event, also if the token of the caller must be looked up first', async () => {
  const isLive = vi.spyOn(running.stoa.identity, 'isLive').mockImplementation(async () => true);
  try {
    const body = JSON.stringify({ directory: join(directory, 'looked-up') });
    const events = await eventsOf('/v1/backups', body, 'application/json');
    expect(events.at(-1)).toMatchObject({ event: 'done', data: { kind: 'full' } });
  } finally {
    isLive.mockRestore();
  }
});

test('without Accept: text/event-stream the answer is plain JSON', async () => {
  const { status, json } = await running.ask('POST', '/v1/backups', {
    as: running.operator,
    body: { directory: join(directory, 'plain') },
  });
  expect(status).toBe(201);
  expect(json).toMatchObject({ kind: 'full' });
});

test('a backup names the domains that another database keeps', async () => {
  const elsewhere = await Running.start({ datastore: 'memory://' });
  try {
    const { json } = await elsewhere.ask('POST', '/v1/backups', {
      as: elsewhere.operator,
      body: { directory: join(directory, 'elsewhere') },
    });
    expect(json).toMatchObject({ not_included: ['data'] });
  } finally {
    await elsewhere.stop();
  }
});

test('at the limit of streams the server works without progress events', async () => {
  const full = await Running.start({ limits: { streamsMax: 0 } });
  try {
    const { status, json } = await full.ask('POST', '/v1/backups', {
      as: full.operator,
      body: { directory: join(directory, 'full') },
      headers: { accept },
    });
    expect(status).toBe(201);
    expect(json).toMatchObject({ kind: 'full' });
  } finally {
    await full.stop();
  }
});

test('a refusal before the first progress event has its HTTP status', async () => {
  const { status, json } = await running.ask('POST', '/v1/backups', {
    as: running.operator,
    body: { directory: 'relative' },
    headers: { accept },
  });
  expect(status).toBe(400);
  expect(json.code).toBe('invalid_request');
  expect(
    (await running.ask('POST', '/v1/backups', { as: running.alice, body: {}, headers: { accept } })).status,
  ).toBe(403);
});

test('an import sends its progress; a later error is the last event', async () => {
  const lines = (await running.ask('GET', '/v1/export?domains=data', { as: running.operator })).text;
  const imported = () => eventsOf('/v1/import', lines, 'application/x-ndjson');
  const same = await imported();
  expect(same[0]?.event).toBe('progress');
  expect(same.at(-1)).toMatchObject({ event: 'done', data: { same: 20, written: 0 } });
  await running.ask('PUT', '/v1/data/notes/k3', { as: running.alice, body: { value: 'other' } });
  const refused = await imported();
  expect(refused.at(-1)).toMatchObject({ event: 'error', data: { code: 'conflict', status: 409 } });
});

test('the command line gets every progress event, and the same error', async () => {
  const connection = await connect({
    url: running.url,
    token: running.operator,
    loadConfig: () => loadConfig({ flags: {}, environment: {} }).config,
  });
  const steps: { done: number; total: number }[] = [];
  const made = await connection.work('backups.create', { directory: join(directory, 'command') }, (step) =>
    steps.push({ ...step }),
  );
  expect(made.kind).toBe('full');
  expect(steps.length).toBeGreaterThan(0);
  await expect(
    connection.work(
      'backups.create',
      { kind: 'incremental', directory: join(directory, 'none') },
      () => undefined,
    ),
  ).rejects.toMatchObject({ code: 'conflict' });
});
