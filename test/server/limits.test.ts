import { afterAll, beforeAll, expect, test } from 'vitest';
import { Running } from './running.js';

let running: Running;
let nowMs = Date.now();

beforeAll(async () => {
  running = await Running.start({
    clock: () => nowMs,
    limits: { tokenNameCharactersMax: 8, userIdBytesMax: 300, fieldErrorsMax: 3, lastSeenSeconds: 0 },
  });
});
afterAll(() => running.stop());

const makeToken = (name: string) =>
  running.ask('POST', '/v1/users/alice/tokens', { as: running.operator, body: { name } });

const lastSeen = async () =>
  (await running.ask('GET', '/v1/users/alice', { as: running.operator })).json.last_seen_at;

/** What a call in each domain answers to the operator who acts for this user. */
async function statusesAs(user: string): Promise<number[]> {
  return [
    (
      await running.ask('POST', '/v1/agents', {
        as: running.operator,
        headers: { 'stoa-user': user },
        body: { name: 'scout' },
      })
    ).status,
    (await running.ask('GET', '/v1/agents', { as: running.operator, headers: { 'stoa-user': user } })).status,
    (
      await running.ask('PUT', '/v1/data/notes/today', {
        as: running.operator,
        headers: { 'stoa-user': user },
        body: { value: 1 },
      })
    ).status,
    (await running.ask('GET', `/v1/users/${user}`, { as: running.operator })).status,
  ];
}

test('a token has a name as long as its limit allows, counted in characters', async () => {
  expect((await makeToken('\u{1f30a}'.repeat(8))).status).toBe(201);
  const refused = await makeToken('laptop of ada');
  expect(refused).toMatchObject({
    status: 400,
    json: { code: 'invalid_request', errors: [{ field: 'body.name' }] },
  });
});

test('a user id as long as its limit allows works in every domain, and a longer one in none', async () => {
  const [longest, longer] = ['u'.repeat(300), 'u'.repeat(301)];
  expect(await statusesAs(longest)).toEqual([201, 200, 201, 200]);
  expect(await statusesAs(longer)).toEqual([400, 400, 400, 400]);
});

test('a refusal lists as many wrong fields as the operator allows', async () => {
  const body = Object.fromEntries(Array.from({ length: 10 }, (_, index) => [`unknown_${index}`, 1]));
  const { status, json } = await running.ask('POST', '/v1/agents', { as: running.alice, body });
  expect(status).toBe(400);
  expect(json.errors).toHaveLength(3);
});

test('the last call of a user is recorded within lastSeenSeconds, and not for unknown users', async () => {
  expect(
    (await running.ask('POST', '/v1/agents', { as: running.alice, body: { name: 'scout' } })).status,
  ).toBe(201);
  for (let call = 0; call < 3; call += 1) {
    nowMs += 1_000;
    await running.ask('GET', '/v1/agents', { as: running.alice });
    await expect.poll(lastSeen).toBe(new Date(nowMs).toISOString());
  }
  await running.ask('GET', '/v1/agents', { as: running.bob });
  expect((await running.ask('GET', '/v1/users/bob', { as: running.operator })).status).toBe(404);
});
