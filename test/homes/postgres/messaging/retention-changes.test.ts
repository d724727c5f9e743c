/** The retention of a room changes while a message, or another change, is on its way to Redis. */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import type { MessagingServer } from '../../../messaging/kit.js';
import { type Gate, startGate } from '../../../servers/gate.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { until } from '../../../until.js';
import { openOn, useRedis } from './open-messaging.js';

const redis = useRedis();
const hourSeconds = 3_600;
const daySeconds = 24 * hourSeconds;

let client: Redis;
let gate: Gate;
/** The first server reaches Redis through the gate. */
let [late, other]: MessagingServer[] = [];
let headers: Record<string, string>;
/** Holds back what the first server sends with this text. */
let heldText: string | undefined;
let isHolding = false;
let release: () => void = () => undefined;

beforeAll(async () => {
  gate = await startGate(redis.url, {
    hold: (sent) => {
      if (heldText === undefined || !sent.includes(heldText)) return undefined;
      heldText = undefined;
      isHolding = true;
      return new Promise((resolve) => (release = resolve));
    },
  });
  client = new Redis(redis.url);
  const { url } = await sharedPostgres();
  [late, other] = [await openOn(url, gate.url), await openOn(url, redis.url)];
  const { token } = await other.stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  headers = { authorization: `Bearer ${token}` };
});
afterAll(async () => {
  await late?.close();
  await other?.close();
  client.disconnect();
  await gate.close();
});
beforeEach(() => {
  isHolding = false;
});

function ask(server: MessagingServer | undefined, method: string, path: string, body: object) {
  if (server === undefined) throw new Error('The servers are not open.');
  return server.ask(method, path, { body, headers });
}

async function newRoom(name: string, seconds: number): Promise<string> {
  const made = await ask(other, 'POST', '/v1/rooms', { name, retention_seconds: seconds });
  expect(made.status).toBe(201);
  expect((await ask(other, 'POST', `/v1/rooms/${name}/messages`, { body: 'first' })).status).toBe(201);
  return made.json.id as string;
}

const keepFor = (server: MessagingServer | undefined, room: string, seconds: number) =>
  ask(server, 'PATCH', `/v1/rooms/${room}`, { retention_seconds: seconds });

/** How long Redis keeps the messages of the room, rounded to hours. */
const keptHours = async (room: string) =>
  Math.round((await client.pttl(`room:${room}:messages`)) / 1_000 / hourSeconds);

/** Runs `first` on the first server until Redis should get what contains the text, then `meanwhile`, then the rest. */
async function during<First>(
  text: string,
  first: () => Promise<First>,
  meanwhile: () => Promise<unknown>,
): Promise<First> {
  heldText = text;
  const running = first();
  await until(() => isHolding);
  try {
    await meanwhile();
  } finally {
    release();
  }
  return running;
}

it.each([
  ['longer', hourSeconds, daySeconds],
  ['shorter', daySeconds, hourSeconds],
])('a message that is on its way is kept as the %s retention says', async (name, before, after) => {
  const room = await newRoom(name, before);
  const posted = await during(
    'said late',
    () => ask(late, 'POST', `/v1/rooms/${room}/messages`, { body: 'said late' }),
    async () => expect((await keepFor(other, room, after)).status).toBe(200),
  );
  expect(posted.status).toBe(201);
  expect(await keptHours(room)).toBe(after / hourSeconds);
});

it('the later of two changes counts, also if Redis hears of the earlier one after it', async () => {
  const room = await newRoom('twice', 2 * daySeconds);
  const first = await during(
    `room:${room}:change`,
    () => keepFor(late, room, hourSeconds),
    async () => expect((await keepFor(other, room, daySeconds)).status).toBe(200),
  );
  expect(first.status).toBe(200);
  expect(await keptHours(room)).toBe(24);
});

it('a longer retention that Redis does not hear of is refused, and nothing is changed', async () => {
  const room = await newRoom('unheard', hourSeconds);
  const refused = await during(
    `room:${room}:change`,
    () => keepFor(late, room, daySeconds),
    () => gate.close(),
  );
  await gate.open();
  expect(refused.status).toBe(503);
  const read = await other?.ask('GET', `/v1/rooms/${room}`, { headers });
  expect(read?.json).toMatchObject({ retention_seconds: hourSeconds, version: 1 });
});
