/** `requestsPerMinuteMax`: one limit for a caller over all servers and both doors, /v1 and /mcp. */
import { afterEach, expect, test } from 'vitest';
import { startGate } from '../../servers/gate.js';
import { sharedHome } from '../../servers/shared.js';
import { type Ask, Running } from '../running.js';

const perMinute = 8;
const opened: Running[] = [];
afterEach(async () => {
  await Promise.all(opened.splice(0).map((server) => server.stop()));
});

async function start(options: Parameters<typeof Running.start>[0] = {}): Promise<Running> {
  const server = await Running.start({
    limits: { requestsPerMinuteMax: perMinute },
    onError: () => undefined,
    ...options,
  });
  opened.push(server);
  return server;
}

const list = (server: Running, as: string) => server.ask('GET', '/v1/agents', { as });
const ping: Ask = { body: { jsonrpc: '2.0', id: 1, method: 'ping' } };
const mcp = (server: Running, as: string) => server.ask('POST', '/mcp', { ...ping, as });

/** The statuses of requests sent at once, and the most that may be accepted: the bucket refills meanwhile. */
async function statusesOf(requests: readonly (() => Promise<{ status: number }>)[]) {
  const startedMs = performance.now();
  const statuses = (await Promise.all(requests.map((ask) => ask()))).map(({ status }) => status);
  const refilled = Math.ceil(((performance.now() - startedMs) / 60_000) * perMinute);
  return {
    accepted: statuses.filter((status) => status === 200).length,
    refused: statuses.filter((status) => status === 429).length,
    max: perMinute + refilled,
  };
}

test('a data directory counts /v1 and /mcp together', async () => {
  const server = await start();
  const requests = Array.from(
    { length: 24 },
    (_, index) => () => (index % 2 === 0 ? list : mcp)(server, server.alice),
  );
  const { accepted, refused, max } = await statusesOf(requests);
  expect(accepted).toBeGreaterThanOrEqual(perMinute);
  expect(accepted).toBeLessThanOrEqual(max);
  expect(accepted + refused).toBe(24);
});

test('two servers of one home share the limit of a caller', async () => {
  const { options } = await sharedHome();
  const servers = [await start(options), await start(options)] as const;
  const { alice, bob } = servers[0];
  const requests = Array.from({ length: 24 }, (_, index) => () => {
    const server = servers[index % 2] ?? servers[0];
    return (index % 4 < 2 ? list : mcp)(server, alice);
  });
  const { accepted, refused, max } = await statusesOf(requests);
  expect(accepted).toBeGreaterThanOrEqual(perMinute);
  expect(accepted).toBeLessThanOrEqual(max);
  expect(accepted + refused).toBe(24);
  const shown = await list(servers[1], bob);
  expect(shown.headers.get('ratelimit')).toMatch(/^"default";r=\d;t=\d+$/);
});

test('without Redis, each server counts the requests that it gets', async () => {
  const { options } = await sharedHome();
  const gate = await startGate(options.redis);
  // Loopback is exempt, so that no request asks Redis whether its address is blocked.
  const shared = { ...options, redis: gate.url, messagingSettings: { rateLimitAllow: ['127.0.0.0/8'] } };
  const servers = [await start(shared), await start(shared)] as const;
  await gate.close();
  for (const server of servers) {
    const requests = Array.from({ length: 12 }, () => () => list(server, servers[0].bob));
    const { accepted, refused, max } = await statusesOf(requests);
    expect(accepted).toBeGreaterThanOrEqual(perMinute);
    expect(accepted).toBeLessThanOrEqual(max);
    expect(accepted + refused).toBe(12);
  }
});
