/** Messages are in shard 00. An agent and its first write are in the shard of its user too. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { shardOf } from '../../../../src/homes/directory/kernel/directory/manifest.js';
import { userKey } from '../../../../src/identity/user-key.js';
import { Running } from '../../../server/running.js';

const shards = [2, 3, 4, 5].find((count) => shardOf(userKey('alice'), count) !== 0) ?? 0;
let server: Running;

beforeAll(async () => {
  server = await Running.start({ shards });
});

afterAll(() => server.stop());

const messagesOf = '/v1/rooms/global/messages';

function post(agent: string, body: string, key?: string): ReturnType<Running['ask']> {
  return server.ask('POST', messagesOf, {
    as: server.alice,
    body: { body },
    headers: { 'stoa-agent': agent, ...(key !== undefined && { 'idempotency-key': key }) },
  });
}

async function bodiesLike(start: string): Promise<string[]> {
  const { json } = await server.ask('GET', `${messagesOf}?limit=100`, { as: server.alice });
  return json.items.map(({ body }) => String(body)).filter((body) => body.startsWith(start));
}

it('wakes a reader that waits for the first message of an agent', async () => {
  await post('before', 'before');
  const { json } = await server.ask('GET', `${messagesOf}?limit=1`, { as: server.alice });
  const waiting = server.ask('GET', `${messagesOf}?after=${json.items[0]?.ts}&wait=20`, { as: server.alice });
  const startedMs = performance.now();
  expect((await post('newcomer', 'awaited')).status).toBe(201);
  expect((await waiting).text).toContain('awaited');
  expect(performance.now() - startedMs).toBeLessThan(15_000);
});

it('posts once under one Idempotency-Key, although the agent is new at the first time only', async () => {
  const first = await post('repeater', 'once', 'key-1');
  const second = await post('repeater', 'once', 'key-1');
  expect([first.status, second.status]).toEqual([201, 201]);
  expect(second.json).toEqual(first.json);
  expect(await bodiesLike('once')).toEqual(['once']);
});

it('posts once under one Idempotency-Key when all repeats come together', async () => {
  const replies = await Promise.all(Array.from({ length: 8 }, () => post('crowd', 'together', 'key-2')));
  expect(new Set(replies.map(({ text }) => text)).size).toBe(1);
  expect(await bodiesLike('together')).toEqual(['together']);
});
