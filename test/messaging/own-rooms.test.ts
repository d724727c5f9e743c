/** Rooms of a user, on every door of a real server. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { AgentKeys, Stoa } from '../../src/client/index.js';
import { Running } from '../server/running.js';

let running: Running;
let alice: Stoa;
let bob: Stoa;
let operator: Stoa;

beforeAll(async () => {
  running = await Running.start();
  const at = (token: string): Stoa => new Stoa({ url: running.url, token });
  [alice, bob, operator] = [at(running.alice), at(running.bob), at(running.operator)];
});
afterAll(() => running.stop());

const root = async (path: string, token?: string): Promise<{ status: number; text: string }> => {
  const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const answer = await fetch(running.url + path, { headers });
  return { status: answer.status, text: await answer.text() };
};

it('a first message by name creates the room of the user once, and nobody else finds it', async () => {
  const totals = async () =>
    (await root('/stats')).text.replace(/"(last_activity|total_agents)":("[^"]*"|\d+)/g, '');
  const before = await totals();
  const posted = await Promise.all(
    Array.from({ length: 5 }, (_, index) => alice.room('build').post(`secret heron ${index}`)),
  );
  expect(posted.filter(({ room_created }) => room_created === true)).toHaveLength(1);
  const [room = ''] = new Set(posted.map(({ room_id }) => room_id));
  expect((await alice.room('build').read()).items).toHaveLength(5);
  expect((await alice.rooms.list({ public: false })).items.map(({ name }) => name)).toEqual(['build']);
  expect(await alice.rooms.get(room)).toMatchObject({
    owner: 'alice',
    public: false,
    retention_seconds: 2_592_000,
  });

  // To others it does not exist, by id and by name, on every door.
  for (const name of [room, 'build'])
    await expect(bob.room(name).read()).rejects.toMatchObject({ code: 'not_found' });
  await expect(bob.room(room).post('hello')).rejects.toMatchObject({ code: 'not_found' });
  await expect(bob.rooms.delete(room)).rejects.toMatchObject({ code: 'not_found' });
  for (const token of [undefined, running.bob])
    for (const path of [
      `/room/${room}`,
      `/room/${room}/stream`,
      `/stream?rooms=${room}`,
      `/room/${room}/${posted[0]?.id}`,
    ])
      expect([path, (await root(path, token)).status]).toEqual([path, 404]);
  expect((await root('/channels')).text).not.toContain(room);
  expect((await root('/find?q=heron')).text).not.toContain('secret');
  expect(await totals()).toBe(before);
  expect((await bob.rooms.list()).items.map(({ id }) => id)).not.toContain(room);
  const commit = await bob
    .commit({ operations: [{ op: 'room.post', room, body: 'in' }] })
    .catch((error) => error);
  expect(JSON.stringify(commit)).toContain('not_found');
  const feed = async (stoa: Stoa) =>
    (await stoa.changes.read({ topics: ['messaging'], limit: 1_000 })).items.filter(({ id }) =>
      id.startsWith(room),
    );
  expect([
    (await feed(bob)).length,
    (await feed(alice)).length > 0,
    (await feed(operator)).length > 0,
  ]).toEqual([0, true, true]);
  // The user's own token reads it on AICQ's routes too.
  expect((await root(`/room/${room}`, running.alice)).status).toBe(200);
});

it('a name means the own room first, and a message never goes to a public room of others', async () => {
  const outsider = operator.agent(await AgentKeys.generate());
  await outsider.register({ name: 'alice' });
  const open = await outsider.rooms.create({ name: 'lobby', public: true });
  await outsider.room(open.id).post('welcome');
  expect((await bob.room('lobby').read()).items).toMatchObject([
    { body: 'welcome', from_name: 'alice', proven: 'outside' },
  ]);
  const own = await bob.room('lobby').post('for us');
  expect(own.room_created).toBe(true);
  expect((await bob.room('lobby').read()).items.map(({ body }) => body)).toEqual(['for us']);
  expect((await bob.room(open.id).read()).items.map(({ body }) => body)).toEqual(['welcome']);
});

it('refuses names in the form of an id, and a second room of one name', async () => {
  for (const name of ['0f8fad5b-d9cb-469f-a165-70867728950e', '0f8fad5bd9cb469fa16570867728950e', 'global'])
    await expect(alice.rooms.create({ name })).rejects.toMatchObject({ code: 'invalid_request' });
  await alice.rooms.create({ name: 'once' });
  await expect(alice.rooms.create({ name: 'once' })).rejects.toMatchObject({ code: 'already_exists' });
  expect(await bob.rooms.create({ name: 'once' })).toMatchObject({ owner: 'bob' });
});

it('a stream ends when its room is deleted', async () => {
  await alice.room('short-lived').post('first');
  const answer = await fetch(`${running.url}/v1/rooms/short-lived/messages?after=1970-01-01T00:00:00Z`, {
    headers: { authorization: `Bearer ${running.alice}`, accept: 'text/event-stream' },
  });
  const text = answer.text();
  await new Promise((resolve) => setTimeout(resolve, 300));
  await alice.rooms.delete('short-lived');
  expect(await text).toContain('"body":"first"');
  await expect(alice.room('short-lived').read()).rejects.toMatchObject({ code: 'not_found' });
});

it('a message to an unknown agent is refused', async () => {
  await expect(alice.inbox.send({ to: 'nobody-here', body: 'hello?' })).rejects.toMatchObject({
    code: 'not_found',
  });
});

it('a page of rooms begins only at a place that a page before it named', async () => {
  const own = new Stoa({ url: running.url, token: running.operator, user: 'pages' });
  for (const name of ['a', 'b', 'c']) await own.rooms.create({ name });
  const { next_cursor: cursor } = await own.rooms.list({ limit: 1 });
  const bytes = Buffer.from(cursor ?? '', 'base64url');
  expect(bytes.subarray(4).toString()).toBe('own/0/pages/a');
  const from = (place: string) =>
    own.rooms.list({
      limit: 1,
      cursor: Buffer.concat([bytes.subarray(0, 4), Buffer.from(place)]).toString('base64url'),
    });
  expect((await from('own/0/pages/b')).items).toMatchObject([{ name: 'c' }]);
  expect((await from('public/0')).items).toMatchObject([{ public: true }]);
  for (const place of [
    'own',
    'own/0/pages',
    'own/0/pages/',
    'own/0/pages/a/b',
    'own/0/%/a',
    'own/0/%00/a',
    'own/0/pages/not a name',
    'public',
    'public/',
    'public/-1',
    'public/1e3',
    'else/0/pages/a',
  ])
    await expect(from(place), place).rejects.toMatchObject({ code: 'invalid_cursor' });
});

it('the ETag of a room is its version, and only changes of the room raise it', async () => {
  const own = new Stoa({ url: running.url, token: running.operator, user: 'versions' });
  const room = await own.rooms.create({ name: 'plans' });
  const ask = (method: string, tag?: string, body?: object) =>
    running.ask(method, '/v1/rooms/plans', {
      as: running.operator,
      ...(body !== undefined && { body }),
      headers: { 'stoa-user': 'versions', ...(tag !== undefined && { 'if-match': tag }) },
    });
  await own.room('plans').post('hello');
  expect((await ask('GET')).headers.get('etag')).toBe('"1"');
  // Of two changes that expect the same version, one wins.
  const both = await Promise.all(
    [60, 120].map((seconds) => ask('PATCH', '"1"', { retention_seconds: seconds })),
  );
  expect(both.map(({ status }) => status).toSorted()).toEqual([200, 412]);
  expect((await ask('GET')).headers.get('etag')).toBe('"2"');
  expect((await ask('DELETE', '"1"')).json.code).toBe('version_conflict');
  expect((await own.rooms.get('plans')).id).toBe(room.id);
  expect((await ask('DELETE', '"2"')).status).toBe(204);
});
