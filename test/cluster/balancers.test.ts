/**
 * The shipped balancers: nginx in front of two servers, one of which is killed, and both in front of a server that breaks
 * every connection. The cluster test runs HAProxy, or nginx with CLUSTER_BALANCER=nginx.
 */
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { type RunningServer, useProgram } from '../cli/program.js';
import type { TestServer } from '../servers/child.js';
import { noteServer, sharedHome } from '../servers/shared.js';
import { type BalancerKind, startBalancer } from './balancer.js';

const program = useProgram();
const patience = { timeout: 30_000, interval: 20 };
const over = new AbortController();
let balancer: TestServer;
let token: string;
let servers: RunningServer[];
let stoa: Stoa;

beforeAll(async () => {
  const { args, environment } = await sharedHome();
  token = environment.STOA_OPERATOR_TOKEN;
  const settings = { ...environment, STOA_TRUSTED_PROXIES: '127.0.0.1' };
  const up = (): Promise<RunningServer> => program.up(program.path('none'), args, settings);
  servers = await Promise.all([up(), up()]);
  balancer = await startBalancer(
    'nginx',
    servers.map(({ url }) => Number(new URL(url).port)),
  );
  await noteServer(balancer.describe);
  stoa = new Stoa({ url: balancer.url, token, user: 'ada', retryDelayMs: 50, attemptsMax: 50 });
});
afterAll(async () => {
  over.abort();
  await balancer?.stop();
});

const namespace = 'n';

/** The keys that a watcher got, in order. */
function watched(): string[] {
  const got: string[] = [];
  const watch = async (): Promise<void> => {
    for await (const { key } of stoa.data(namespace).watch({ signal: over.signal })) got.push(String(key));
  };
  watch().catch((error: unknown) => {
    if (!over.signal.aborted) got.push(`failed: ${String(error)}`);
  });
  return got;
}

const headers = (): Record<string, string> => ({ authorization: `Bearer ${token}`, 'stoa-user': 'ada' });

/** Without a repeat by the client. */
function increment(): Promise<Response> {
  return fetch(`${balancer.url}/v1/data/${namespace}/counter`, {
    method: 'PATCH',
    headers: { ...headers(), 'content-type': 'application/json' },
    body: JSON.stringify({ increment: 1 }),
  });
}

test('an event is sent on at once, and metrics are not', async () => {
  const got = watched();
  let key = 0;
  // Until the watcher is connected.
  await vi.waitFor(async () => {
    await stoa.data(namespace).set(`k${(key += 1)}`, key);
    expect(got.length).toBeGreaterThan(0);
  }, patience);
  expect((await fetch(`${balancer.url}/metrics`)).status).toBe(404);
});

test('streams and reads continue when a server is killed', async () => {
  const streams = Array.from({ length: 4 }, watched);
  await vi.waitFor(async () => {
    await stoa.data(namespace).set('s', 1);
    for (const got of streams) expect(got).toContain('s');
  }, patience);
  for (const got of streams) got.length = 0;
  let [accepted, unknown] = [0, 0];
  const written = new AbortController();
  const loop = async (): Promise<void> => {
    while (!written.signal.aborted) {
      const answer = await increment();
      await answer.text();
      if (answer.ok) accepted += 1;
      else unknown += 1;
      // A read that meets the killed server is sent to the other one.
      const read = await fetch(`${balancer.url}/v1/agents`, { headers: headers() });
      expect(read.status).toBe(200);
      await read.text();
    }
  };
  const loops = Array.from({ length: 8 }, loop);
  const expected: string[] = [];
  const write = async (key: string): Promise<void> => {
    await stoa.data(namespace).set(key, key);
    expected.push(key);
  };
  for (let key = 0; key < 20; key += 1) await write(`w${key}`);
  await servers[0]?.end('SIGKILL');
  for (let key = 20; key < 60; key += 1) await write(`w${key}`);
  written.abort();
  await Promise.all(loops);
  for (const got of streams)
    await vi.waitFor(() => expect(got.filter((key) => key.startsWith('w'))).toEqual(expected), patience);
  const stored = await stoa.data(namespace).get('counter');
  expect(accepted).toBeGreaterThan(0);
  expect(stored).toBeGreaterThanOrEqual(accepted);
  expect(stored).toBeLessThanOrEqual(accepted + unknown);
});

const breaking: Server[] = [];
afterEach(() => {
  for (const server of breaking.splice(0)) server.close();
});

/** A server that is ready, and breaks the connection when it has read another request. */
async function startBreaking(methods: string[]): Promise<number> {
  const server = createServer((request, response) => {
    if (request.url === '/readyz') return void response.end('{}');
    methods.push(request.method ?? '');
    request.resume().once('end', () => request.socket.destroy());
  });
  breaking.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port; // A TCP server that listens has an AddressInfo.
}

test.each(['haproxy', 'nginx'] satisfies BalancerKind[])(
  '%s sends a write to one server, once, also if the connection breaks',
  async (kind) => {
    const methods: string[] = [];
    const ports = await Promise.all([startBreaking(methods), startBreaking(methods)]);
    const itself = await startBalancer(kind, ports);
    try {
      // nginx takes no third request: each of them marks its server as failed.
      for (const method of ['POST', 'PATCH'])
        await fetch(`${itself.url}/v1/data/n/k`, { method, body: '{}' }).then(
          ({ status }) => expect(status).toBe(502),
          // HAProxy also ends the connection of a client that has used it before.
          () => undefined,
        );
      expect(methods).toEqual(['POST', 'PATCH']);
    } finally {
      await itself.stop();
    }
  },
);
