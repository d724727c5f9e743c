import { kernelOf } from '../kernel-of.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { StoaError } from '../../src/core/errors.js';
import { Agent, type Answer, MessagingServer, roomy } from './kit.js';
import { until } from '../until.js';

let data: string;

beforeAll(async () => {
  data = await mkdtemp(join(tmpdir(), 'stoa-messaging-'));
});
afterAll(() => rm(data, { recursive: true, force: true }));

/** Each call is a new server on the same directory. */
function start(): Promise<MessagingServer> {
  return MessagingServer.open({
    data,
    engine: 'lmdb',
    limits: { ...roomy, messageBytesPerMinuteMax: 100, channelReadsPerMinuteMax: 1 },
    messagingSettings: { trustedProxies: ['127.0.0.1'] },
  });
}

it('messages, authors, nonces, used bytes, rate windows and blocks survive a restart', async () => {
  let server = await start();
  const ann = await server.agent('Ann');
  const room = await server.room(ann, 'den', 'a key of sixteen or more');
  const body = JSON.stringify({ body: 'x'.repeat(90) });
  const headers = ann.headers(body);
  expect((await server.ask('POST', '/room/global', { raw: body, headers })).status).toBe(201);
  const from = { headers: { 'x-forwarded-for': '203.0.113.7' } };
  for (let count = 0; count < 11; count += 1) await server.ask('GET', '/channels', from);
  expect((await server.ask('GET', '/room/global', from)).status).toBe(403);
  const operator = { authorization: `Bearer ${server.stoa.operatorToken}` };
  expect(
    (await server.ask('POST', `/room/${room}`, { body: { body: 'kept' }, headers: operator })).status,
  ).toBe(201);
  const busy = { headers: { 'x-forwarded-for': '203.0.113.8' } };
  expect((await server.ask('GET', '/channels', busy)).status).toBe(200);
  await server.close();

  server = await start();
  try {
    expect((await server.ask('GET', '/room/global')).json.messages[0].body).toBe('x'.repeat(90));
    expect((await server.ask('POST', '/room/global', { raw: body, headers })).json).toEqual({
      error: 'nonce already used',
    });
    const again = new Agent(server, ann.seed);
    again.id = ann.id;
    expect((await again.ask('POST', '/room/global', { body: { body: 'x'.repeat(11) } })).json).toEqual({
      error: 'message byte rate limit exceeded (32KB/min)',
    });
    expect((await server.ask('GET', '/room/global', from)).json).toEqual({ error: 'temporarily blocked' });
    expect((await server.ask('GET', '/channels', busy)).json).toEqual({ error: 'rate limit exceeded' });
    const key = { headers: { 'x-aicq-room-key': 'a key of sixteen or more' } };
    expect((await server.ask('GET', `/room/${room}`, key)).json.messages[0].body).toBe('kept');
    expect(
      (await server.ask('POST', `/room/${room}`, { body: { body: 'again' }, headers: operator })).status,
    ).toBe(201);
    const [newest, oldest] = (await server.ask('GET', `/room/${room}`, key)).json.messages;
    expect(newest.from).toBe(oldest.from);
  } finally {
    await server.close();
  }
});

function register(server: MessagingServer, address: string): Promise<Answer> {
  return server.ask('POST', '/register', {
    body: { public_key: new Agent(server).publicKey },
    headers: { 'x-forwarded-for': address },
  });
}

it('the configured admin, in any spelling of its id, can delete messages of others; a name that is not an id is refused', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-messaging-'));
  const open = (adminAgent: string | null) =>
    MessagingServer.open({ data: directory, engine: 'lmdb', messagingSettings: { adminAgent } });
  try {
    let server = await open(null);
    const [ann, bob] = [await server.agent(), await server.agent()];
    const said = [await bob.post('global', 'one'), await bob.post('global', 'two')].map(({ id }) => id);
    expect((await ann.ask('DELETE', `/room/global/${said[0] as string}`)).status).toBe(403);
    await server.close();
    server = await open(ann.id.toUpperCase());
    const [admin, other] = [ann, await server.agent()].map(({ id, seed }) =>
      Object.assign(new Agent(server, seed), { id }),
    ) as [Agent, Agent];
    expect((await admin.ask('DELETE', `/room/global/${said[0] as string}`)).status).toBe(204);
    expect((await other.ask('DELETE', `/room/global/${said[1] as string}`)).status).toBe(403);
    await server.close();
    await expect(open('the-admin')).rejects.toMatchObject({ code: 'invalid_config' });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

it('a store that refuses writes accepts no signature, because it cannot store the nonce', async () => {
  const server = await MessagingServer.open();
  try {
    const ann = await server.agent();
    expect((await ann.ask('GET', '/dm')).status).toBe(200);
    kernelOf(server.stoa).root.stop(
      new StoaError('writes_stopped', 'The disk is gone, as the test wants it.'),
    );
    for (const answer of [
      await ann.ask('GET', '/dm'),
      await ann.ask('POST', '/room/global', { body: { body: 'x' } }),
    ])
      expect(answer.status).toBe(503);
    expect((await server.ask('GET', '/room/global')).status).toBe(200);
  } finally {
    await server.close();
  }
});

/** Names of the rate windows on disk. */
function rows(server: MessagingServer): string[] {
  return Array.from(kernelOf(server.stoa).root.range('messaging/rate_windows', {}), ({ key }) =>
    key.toString(),
  );
}

it('a crash loses only the newest rate windows, and old ones are deleted from disk', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-messaging-'));
  let offsetMs = 0;
  const open = () =>
    MessagingServer.open({
      data: directory,
      engine: 'lmdb',
      clock: () => Date.now() + offsetMs,
      limits: { ...roomy, registrationsPerHourMax: 1, rateWindowsKeptEverySeconds: 0.02 },
      messagingSettings: { trustedProxies: ['127.0.0.1'] },
    });
  try {
    let server = await open();
    expect((await register(server, '203.0.113.1')).status).toBe(201);
    // Ten refusals; the last one comes after the crash.
    for (let count = 0; count < 9; count += 1)
      expect((await register(server, '203.0.113.1')).status).toBe(429);
    await until(
      () =>
        rows(server).includes('rates register ip 203.0.113.1') &&
        rows(server).includes('violations 203.0.113.1'),
    );
    await until(
      () =>
        JSON.parse(
          kernelOf(server.stoa)
            .root.get('messaging/rate_windows', Buffer.from('violations 203.0.113.1'))
            ?.toString() ?? '[{"times":[]}]',
        )[0].times.length === 9,
    );
    // From here on nothing reaches the disk, as if the process had been killed.
    kernelOf(server.stoa).root.stop(new StoaError('writes_stopped', 'A crash, as the test wants it.'));
    await server.close();

    server = await open();
    expect((await register(server, '203.0.113.1')).json).toEqual({ error: 'rate limit exceeded' });
    expect((await register(server, '203.0.113.1')).json).toEqual({ error: 'temporarily blocked' });
    expect((await register(server, '203.0.113.2')).status).toBe(201);
    await until(() => rows(server).includes('rates register ip 203.0.113.2'));
    offsetMs = 2 * 3_600_000;
    await until(() => rows(server).length === 0);
    expect((await register(server, '203.0.113.2')).status).toBe(201);
    await server.close();
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});

it('expired messages, threads, nonces and blocks are deleted from disk', async () => {
  let offsetMs = 0;
  const server = await MessagingServer.open({ clock: () => Date.now() + offsetMs, limits: roomy });
  try {
    const ann = await server.agent();
    const { id } = await ann.post('global', 'words that will go');
    await ann.post('global', 'an answer', { pid: id });
    await ann.ask('POST', `/dm/${ann.id}`, { body: { body: 'letter' } });
    await server.stoa.messaging.port.block({
      address: '203.0.113.7',
      reason: 'test',
      expiresAtMs: Date.now() + 1_000,
    });
    const families = ['messages', 'threads', 'inboxes', 'pending', 'nonces', 'blocks'].map(
      (name) => `messaging/${name}`,
    );
    const counts = () => families.map((family) => [...kernelOf(server.stoa).root.range(family, {})].length);
    expect(counts().every((count) => count > 0)).toBe(true);
    offsetMs = 8 * 24 * 3_600_000;
    await kernelOf(server.stoa).sweep();
    // One row remains: the times of the nonces.
    expect(counts()).toEqual(families.map((family) => (family === 'messaging/nonces' ? 1 : 0)));
  } finally {
    await server.close();
  }
});

it('a signature is accepted once, also when the clock goes ten minutes forward and back', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-messaging-'));
  let offsetMs = 0;
  const clock = () => Date.now() + offsetMs;
  const open = () => MessagingServer.open({ data: directory, engine: 'lmdb', limits: roomy, clock });
  let server = await open();
  try {
    const ann = await server.agent('Ann');
    const raw = JSON.stringify({ body: 'once' });
    const signed = ann.headers(raw);
    const post = async (headers: Record<string, string>) =>
      (await server.ask('POST', '/room/global', { raw, headers })).status;
    const restarted = async () => {
      await server.close();
      server = await open();
    };
    expect(await post(signed)).toBe(201);
    offsetMs = 600_000;
    await kernelOf(server.stoa).sweep();
    // A nonce of the later time makes the server forget the earlier ones, in memory too.
    expect(await post(ann.headers(raw, { timestamp: clock() }))).toBe(201);
    offsetMs = 0;
    expect(await post(signed)).toBe(401);
    await restarted();
    expect(await post(signed)).toBe(401);
    // Later signatures are accepted again as soon as no forgotten nonce can belong to them.
    offsetMs = 125_000;
    expect(await post(ann.headers(raw, { timestamp: clock() }))).toBe(201);
  } finally {
    await server.close();
    await rm(directory, { recursive: true, force: true });
  }
});
