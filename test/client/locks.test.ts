/** Locks over HTTP and by the client: paths, statuses, renewals through a restart, and loss in time. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { operatorCaller } from '../../src/core/caller.js';
import { encodeSegment } from '../../src/core/text/path-segment.js';
import { type Stoa as OpenedStoa, openStoa } from '../../src/index.js';
import { createApp, stopApp } from '../../src/server/app.js';
import { eventually } from '../until.js';

let directory: string;
let opened: OpenedStoa;
let stop: () => Promise<void>;
let url: string;
let port = 0;

async function start(): Promise<void> {
  opened = await openStoa({ data: directory, sweepIntervalMs: 50 });
  const app = createApp(opened);
  url = await app.listen({ host: '127.0.0.1', port });
  port = Number(new URL(url).port);
  stop = async () => {
    await stopApp(app, 5);
    await opened.close();
  };
}

beforeEach(async () => {
  port = 0;
  directory = await mkdtemp(join(tmpdir(), 'stoa-locks-'));
  await start();
});
afterEach(async () => {
  await stop();
  await rm(directory, { recursive: true });
});

const clientOf = (agent: string): Stoa => new Stoa({ url, token: opened.operatorToken, user: 'ada', agent });

function send(method: string, path: string, body?: object): Promise<Response> {
  return fetch(`${url}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${opened.operatorToken}`,
      'stoa-user': 'ada',
      'stoa-agent': 'otter',
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
}

test('a path is a name, percent-encoded or as base64url, and reaches no other route', async () => {
  for (const name of ['src/app.ts', '../../etc/passwd', '~', 'a b', 'ü', '..', '%2e%2e', 'x?y#z']) {
    const path = `/v1/locks/${encodeSegment(name)}`;
    const made = await send('PUT', path, {});
    expect(made.status, name).toBe(201);
    expect(made.headers.get('location')).toBe(path);
    expect(await made.json()).toMatchObject({ name, holder: 'otter', fence: expect.any(Number) });
    expect((await send('PUT', path, { ttl: 5 })).status).toBe(200);
    expect(await (await send('DELETE', path)).json()).toEqual({ released: true });
  }
  expect((await send('PUT', '/v1/locks/~?', {})).status).toBe(400);
  expect((await send('PUT', '/v1/locks/a', { until: 1 })).status).toBe(400);
  expect((await send('PUT', '/v1/locks/a')).status).toBe(201);
});

test('a lock of another agent is a 409 that names the holder and the end', async () => {
  const otter = await clientOf('otter').locks.acquire('src/app.ts', { ttl: 60, note: 'tests' });
  await expect(clientOf('heron').locks.acquire('src/app.ts')).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringMatching(
      /^"src\/app\.ts" is locked by otter \(tests\) since .*Z\. The lock ends at/,
    ),
    details: { holder: 'otter', note: 'tests' },
  });
  expect((await clientOf('heron').locks.list({ prefix: 'src/' })).items).toMatchObject([
    { name: 'src/app.ts', holder: 'otter', fence: otter.fence },
  ]);
  const waiting = clientOf('heron').locks.acquire('src/app.ts', { wait: 30 });
  expect(await otter.release()).toBe(true);
  const heron = await waiting;
  expect(heron.fence).toBeGreaterThan(otter.fence);
  expect(await otter.release()).toBe(false);
  await heron.release();
});

test('a held lock is renewed, also by a restarted server, and its loss aborts the work', async () => {
  const held = await clientOf('otter').locks.acquire('deploy', { ttl: 4 });
  /** The time of the next renewal after a time. */
  const renewedAfter = (time: string): Promise<string> =>
    eventually(async () => {
      const { renewed_at: renewed = '' } = (await clientOf('heron').locks.list({})).items[0] ?? {};
      expect(renewed > time).toBe(true);
      return renewed;
    });
  const renewed = await renewedAfter(await renewedAfter(''));
  await stop();
  await start();
  await renewedAfter(renewed);
  expect(held.signal.aborted).toBe(false);
  expect((await clientOf('heron').locks.list({})).items).toMatchObject([{ fence: held.fence }]);
  await clientOf('heron').locks.release('deploy', { force: true });
  await eventually(() => expect(held.signal.aborted).toBe(true));
  expect(held.signal.reason).toMatchObject({ code: 'fenced' });
});

test('a lock that lives shorter than a request is refused, not asked for without end', async () => {
  const late: typeof fetch = async (...given) => {
    const answer = await fetch(...given);
    await eventually(async () => expect((await opened.locks.list(operatorCaller('ada'))).items).toEqual([]));
    return answer;
  };
  const otter = new Stoa({ url, token: opened.operatorToken, user: 'ada', agent: 'otter', fetch: late });
  const acquiring = otter.locks.acquire('deploy', { ttl: 0.05 });
  await expect(acquiring).rejects.toMatchObject({ code: 'fenced', fix: 'Use a longer ttl.' });
});

test('an abandoned lock lapses in the feed', async () => {
  const held = await clientOf('otter').locks.acquire('a', { ttl: 0.3 });
  held.abandon();
  await eventually(async () => {
    const { items } = await clientOf('heron').changes.read({ topics: ['locks'] });
    expect(items.map(({ kind }) => kind)).toEqual(['lock.acquired', 'lock.lapsed']);
    expect(items[0]).toMatchObject({ agent: 'otter', id: 'a', facts: { name: 'a', holder: 'otter' } });
  });
});

test('a lock that came after a wait longer than its life is held for its whole life', async () => {
  expect((await send('PUT', '/v1/locks/deploy', { ttl: 6 })).status).toBe(201);
  const lock = await clientOf('heron').locks.acquire('deploy', { ttl: 5, wait: 120 });
  expect((await clientOf('heron').locks.list()).items).toMatchObject([{ name: 'deploy', holder: 'heron' }]);
  expect(lock.signal.aborted).toBe(false);
  expect(await lock.release()).toBe(true);
}, 150_000);
