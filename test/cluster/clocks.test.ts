/** Two servers whose own clocks are set while they run: times go by the clock of the database. */
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest';
import { type Ask, type Reply, Running } from '../server/running.js';
import { sharedHome } from '../servers/shared.js';

const hourMs = 3_600_000;
const realNow = Date.now;
let a: Running;
let b: Running;

beforeAll(async () => {
  const { options } = await sharedHome();
  a = await Running.start(options);
  b = await Running.start(options);
});
afterEach(() => {
  vi.restoreAllMocks();
});
afterAll(async () => {
  await a.stop();
  await b.stop();
});

async function asked(server: Running, method: string, path: string, request: Ask = {}): Promise<Reply> {
  const reply = await server.ask(method, path, { as: a.alice, ...request });
  expect(reply.status, `${method} ${path}: ${reply.text}`).toBeLessThan(300);
  return reply;
}

it.each([
  ['ahead', hourMs],
  ['behind', -hourMs],
])('a clock that is set an hour %s changes no time', async (where, byMs) => {
  const room = `room-${where}`;
  await asked(a, 'PUT', `/v1/data/clocks/${where}`, { body: { value: 1, ttl: 600 } });
  await asked(a, 'PUT', `/v1/locks/${where}`, { body: { ttl: 600 }, headers: { 'stoa-agent': 'holder' } });
  await asked(a, 'POST', '/v1/rooms', { body: { name: room } });
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + byMs);
  expect((await asked(b, 'GET', `/v1/data/clocks/${where}`)).json).toMatchObject({ value: 1, version: 1 });
  const changed = await asked(b, 'PUT', `/v1/data/clocks/${where}`, { body: { value: 2, ttl: 600 } });
  expect(changed.json).toMatchObject({ version: 2 });
  const taken = { as: a.alice, body: { ttl: 60 }, headers: { 'stoa-agent': 'other' } };
  expect((await b.ask('PUT', `/v1/locks/${where}`, taken)).status).toBe(409);
  const { json } = await asked(b, 'POST', `/v1/rooms/${room}/messages`, { body: { body: 'on time' } });
  expect(Math.abs(Date.parse(String(json['ts'])) - realNow())).toBeLessThan(hourMs / 2);
});
