/** Rooms of a user on every backend: who sees them, what a name means, keys, and how long messages are kept. */
import { type TestRunner, eventually } from '../../../core/test-runner.js';
import { credentials, secret } from '../kit/requests.js';
import { type Answer, type Backend, type MessagingServer, roomy, onServer } from '../kit/server.js';

type Headers = Record<string, string>;

const withKey = { 'x-aicq-room-key': secret };
const dayMs = 86_400_000;

/** A message of a commit. */
const say = (room: string, body: string, key?: string) => ({ op: 'room.post', room, body, key });

const bodies = ({ json }: Answer): string[] => json.items.map(({ body }) => String(body));

export function ownRoomTests(
  { afterAll, beforeAll, describe, expect, it }: TestRunner,
  backend: Backend,
): void {
  describe(`rooms of a user on ${backend.name}`, () => {
    let server: MessagingServer;
    let [ada, bob, operator]: [Headers, Headers, Headers] = [{}, {}, {}];

    beforeAll(async () => {
      server = await backend.open();
      [ada, bob] = [await credentials(server, 'ada', 'scout'), await credentials(server, 'bob', 'scout')];
      operator = { authorization: `Bearer ${server.stoa.operatorToken}` };
    });
    afterAll(() => server.close());

    const rooms = (headers: Headers, query = '') => server.get(`/v1/rooms${query}`, headers);
    const create = (headers: Headers, body: object) => server.send('/v1/rooms', body, headers);
    const post = (headers: Headers, room: string, body: string) =>
      server.send(`/v1/rooms/${room}/messages`, { body }, headers);
    const read = (headers: Headers, room: string) => server.get(`/v1/rooms/${room}/messages`, headers);

    it('are made once by a first message, and do not exist for anybody else', async () => {
      const totals = async () =>
        (await server.get('/stats')).text.replace(/"(last_activity|total_agents)":("[^"]*"|\d+)/g, '');
      const before = await totals();
      const posted = await Promise.all(
        [1, 2, 3, 4, 5].map((turn) => post(ada, 'build', `secret heron ${turn}`)),
      );
      expect(posted.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
      expect(posted.filter(({ json }) => json.room_created).length).toBe(1);
      const room = String(posted[0]?.json.room_id);
      expect(posted.map(({ json }) => json.room_id)).toEqual(posted.map(() => room));
      expect((await read(ada, 'build')).json.items.length).toBe(5);
      expect((await rooms(ada, '?public=false')).json.items.map(({ name }) => name)).toEqual(['build']);
      expect((await server.get(`/v1/rooms/${room}`, ada)).json).toMatchObject({
        owner: 'ada',
        public: false,
        is_private: false,
      });

      for (const [method, path, body] of [
        ['GET', `/v1/rooms/${room}`, undefined],
        ['GET', '/v1/rooms/build', undefined],
        ['GET', `/v1/rooms/${room}/messages`, undefined],
        ['GET', '/v1/rooms/build/messages', undefined],
        ['GET', `/v1/rooms/${room}/messages/${posted[0]?.json.id}`, undefined],
        ['POST', `/v1/rooms/${room}/messages`, { body: 'let me in' }],
        ['PATCH', `/v1/rooms/${room}`, { retention_seconds: 1 }],
        ['DELETE', `/v1/rooms/${room}`, undefined],
        ['POST', `/v1/commit`, { operations: [{ op: 'room.post', room, body: 'let me in' }] }],
      ] as const) {
        const answer = await server.ask(method, path, { headers: bob, ...(body !== undefined && { body }) });
        expect([path, answer.status, answer.json.code]).toEqual([path, 404, 'not_found']);
      }
      for (const headers of [{}, bob])
        for (const path of [`/room/${room}`, `/room/${room}/stream`, `/stream?rooms=${room}`])
          expect([path, (await server.get(path, headers)).status]).toEqual([path, 404]);
      const stranger = await server.agent('Mallory');
      expect((await stranger.send(`/room/${room}`, { body: 'x' })).status).toBe(404);
      for (const path of ['/channels?limit=100', '/find?q=heron'])
        for (const shown of [room, 'secret']) expect((await server.get(path)).text).not.toContain(shown);
      expect((await rooms(bob)).text).not.toContain(room);
      expect(await totals()).toBe(before);
      const feed = async (headers: Headers) =>
        (await server.get('/v1/changes?topics=messaging&limit=1000', headers)).text.includes(room);
      expect([await feed(bob), await feed(ada), await feed(operator)]).toEqual([false, true, true]);
      // The operator's metrics count its messages.
      await eventually(
        async () => /^stoa_messages_posted (\d+)$/m.exec((await server.get('/metrics')).text)?.[1],
        (count) => Number(count) >= 5,
      );
      // The user's own token reads it on AICQ's routes too.
      expect((await server.get(`/room/${room}`, ada)).status).toBe(200);
    });

    const commit = (headers: Headers, operations: readonly object[]) =>
      server.send('/v1/commit', { operations }, headers);

    it('get several messages of the commit that makes them, with one key', async () => {
      const made = await commit(ada, [say('vault', 'one', secret), say('vault', 'two', secret)]);
      expect([made.status, made.json.ok]).toEqual([200, true]);
      const found = await server.get('/v1/rooms/vault', { ...ada, ...withKey });
      expect(found.json).toMatchObject({ is_private: true });
      const seen = async () => bodies(await read({ ...ada, ...withKey }, 'vault')).toSorted();
      expect(await eventually(seen, ({ length }) => length > 1)).toEqual(['one', 'two']);
      for (const key of [undefined, `${secret}, another`]) {
        const refused = await commit(ada, [say('attic', 'one', secret), say('attic', 'two', key)]);
        expect([refused.status, refused.json.code]).toEqual([403, 'forbidden']);
      }
      expect((await rooms(ada, '?public=false')).json.items.map(({ name }) => name)).not.toContain('attic');
    });

    it('with a key count against the rate, also in a commit, before their keys are hashed', async () => {
      await onServer(backend, { limits: { ...roomy, roomsCreatedPerHourMax: 3 } }, async (few) => {
        const headers = await credentials(few, 'ada', 'scout');
        const ask = (names: readonly string[]) =>
          few.send('/v1/commit', { operations: names.map((room) => say(room, 'x', secret)) }, headers);
        expect((await ask(['a', 'a', 'a', 'a', 'b'])).status).toBe(200);
        const refused = await ask(['c', 'd', 'e']);
        expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited']);
        const listed = await few.get('/v1/rooms?public=false', headers);
        expect(listed.json.items.map(({ name }) => name)).toEqual(['a', 'b']);
      });
    });

    it('come first under their name, and a message never goes to a public room of others', async () => {
      const outsider = await server.agent('scout');
      const open = await server.room(outsider, 'lobby');
      await outsider.post(open, 'welcome');
      const [welcome] = (await read(bob, 'lobby')).json.items;
      // A look-alike: bob has an agent of that name, and only `proven` says who wrote.
      expect(welcome).toMatchObject({ body: 'welcome', from_name: 'scout', proven: 'outside' });
      expect((await post(bob, 'lobby', 'for us')).json.room_created).toBe(true);
      expect(bodies(await read(bob, 'lobby'))).toEqual(['for us']);
      expect(bodies(await read(bob, open))).toEqual(['welcome']);
      expect((await read(bob, 'lobby')).json.items[0]).toMatchObject({
        from_name: 'scout',
        proven: 'member',
      });
      await post(bob, open, 'from bob');
      const [seen] = (await read(ada, open)).json.items;
      expect(seen).toMatchObject({ body: 'from bob', proven: 'linked' });
    });

    it('have one name each; names in the form of an id are refused', async () => {
      for (const name of [
        '0f8fad5b-d9cb-469f-a165-70867728950e',
        '0f8fad5bd9cb469fa16570867728950e',
        'global',
      ])
        expect((await create(ada, { name })).json.code).toBe('invalid_request');
      expect((await create(ada, { name: 'once' })).status).toBe(201);
      expect((await create(ada, { name: 'once' })).json.code).toBe('already_exists');
      expect((await create(bob, { name: 'once' })).json).toMatchObject({ owner: 'bob' });
    });

    it('are open to everyone only if their creator says so', async () => {
      const { json } = await create(ada, { name: 'market', public: true });
      expect(json).toMatchObject({ owner: null, public: true });
      await post(ada, json.id, 'fresh fish');
      for (const headers of [{}, bob])
        expect((await server.get(`/room/${json.id}`, headers)).json.messages.length).toBe(1);
      expect((await server.get('/channels?limit=100')).text).toContain(json.id);
      const stranger = await server.agent('Mallory');
      expect((await stranger.post(json.id, 'how much?')).id.length).toBe(26);
    });

    it('with a key need it from their own user, and still do not exist for others', async () => {
      const { json, status } = await create(ada, { name: 'den', key: secret });
      expect([status, json.is_private, json.owner]).toEqual([201, true, 'ada']);
      const ask = (method: string, headers: Headers, body?: object) =>
        server.ask(method, '/v1/rooms/den/messages', { headers, ...(body !== undefined && { body }) });
      expect((await ask('POST', { ...ada, ...withKey }, { body: 'inside' })).status).toBe(201);
      for (const key of [{}, { 'x-aicq-room-key': `${secret}x` }] as Headers[])
        for (const [method, body] of [
          ['GET', undefined],
          ['POST', { body: 'x' }],
        ] as const)
          expect([method, (await ask(method, { ...ada, ...key }, body)).status]).toEqual([method, 403]);
      expect(bodies(await ask('GET', { ...ada, ...withKey }))).toEqual(['inside']);
      for (const room of ['den', json.id])
        expect((await read({ ...bob, ...withKey }, room)).json.code).toBe('not_found');
      // The first message to a new name with a key makes a private room, too.
      const first = await server.send(
        '/v1/rooms/cellar/messages',
        { body: 'hidden' },
        { ...ada, ...withKey },
      );
      expect(first.json.room_created).toBe(true);
      expect((await read(ada, 'cellar')).status).toBe(403);
      expect(bodies(await read({ ...ada, ...withKey }, 'cellar'))).toEqual(['hidden']);
      for (const name of ['short', 'public'])
        expect(
          (
            await create(
              ada,
              name === 'short' ? { name, key: 'short' } : { name, public: true, is_private: true },
            )
          ).json.code,
        ).toBe('invalid_request');
    });

    it('are listed from a place that a page before named, and from no other', async () => {
      const pages = { ...operator, 'stoa-user': 'pages' };
      for (const name of ['a', 'b', 'c']) await create(pages, { name });
      const { json } = await rooms(pages, '?limit=1');
      const bytes = Buffer.from(json.next_cursor, 'base64url');
      expect(bytes.subarray(4).toString()).toBe('own/0/pages/a');
      const from = (place: string) =>
        rooms(
          pages,
          `?limit=1&cursor=${Buffer.concat([bytes.subarray(0, 4), Buffer.from(place)]).toString('base64url')}`,
        );
      expect((await from('own/0/pages/b')).json.items[0]).toMatchObject({ name: 'c' });
      expect((await from('public/0')).json.items[0]).toMatchObject({ public: true });
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
        expect([place, (await from(place)).json.code]).toEqual([place, 'invalid_cursor']);
    });

    it('have their version as ETag, which only changes of the room raise', async () => {
      await create(ada, { name: 'plans' });
      await post(ada, 'plans', 'hello');
      const ask = (method: string, tag?: string, body?: object) =>
        server.ask(method, '/v1/rooms/plans', {
          headers: { ...ada, ...(tag !== undefined && { 'if-match': tag }) },
          ...(body !== undefined && { body }),
        });
      expect((await ask('GET')).headers.get('etag')).toBe('"1"');
      // If two changes expect the same version, one wins.
      const both = await Promise.all(
        [60, 120].map((seconds) => ask('PATCH', '"1"', { retention_seconds: seconds })),
      );
      expect(both.map(({ status }) => status).toSorted()).toEqual([200, 412]);
      expect((await ask('GET')).headers.get('etag')).toBe('"2"');
      expect((await ask('DELETE', '"1"')).json.code).toBe('version_conflict');
      expect((await ask('DELETE', '"2"')).status).toBe(204);
    });

    it('end their streams when they are deleted', async () => {
      await post(ada, 'short-lived', 'first');
      const answer = await fetch(`${server.url}/v1/rooms/short-lived/messages?after=1970-01-01T00:00:00Z`, {
        headers: { ...ada, accept: 'text/event-stream' },
      });
      let heard = '';
      const ended = (async () => {
        for await (const chunk of answer.body ?? []) {
          const isFirst = !heard.includes('"body":"first"');
          heard += Buffer.from(chunk).toString();
          if (isFirst && heard.includes('"body":"first"'))
            await server.ask('DELETE', '/v1/rooms/short-lived', { headers: ada });
        }
      })();
      await ended;
      expect(heard).toContain('"body":"first"');
      expect((await read(ada, 'short-lived')).status).toBe(404);
    });

    it('a letter to a name that no agent of the user has is refused, with a similar name', async () => {
      const send = (to: string) => server.send('/v1/inbox', { to, body: 'hello?' }, ada);
      const unknown = await send('scuot');
      expect([unknown.status, unknown.json.code]).toEqual([404, 'not_found']);
      expect(unknown.text).toContain('scout');
      expect((await send('nobody-at-all')).json.code).toBe('not_found');
      const letter = await send('scout');
      expect(letter.status).toBe(201);
      expect((await server.get('/v1/inbox', bob)).json.items.length).toBe(0);
      expect((await server.get('/v1/inbox', ada)).json.items[0]).toMatchObject({
        body: 'hello?',
        proven: 'member',
      });
    });
  });

  it(`rooms of a user keep messages 30 days, public rooms one, on ${backend.name}`, async () => {
    let offsetMs = 0;
    await onServer(backend, { limits: roomy, clock: () => Date.now() + offsetMs }, async (server) => {
      const ada = await credentials(server, 'ada', 'scout');
      for (const [name, more] of [
        ['own', {}],
        ['open', { public: true }],
        ['year', { retention_seconds: 365 * 24 * 3_600 }],
      ] as const)
        expect((await server.send('/v1/rooms', { name, ...more }, ada)).status).toBe(201);
      for (const room of ['own', 'open', 'year'])
        await server.send(`/v1/rooms/${room}/messages`, { body: 'kept words' }, ada);
      const kept = async (afterMs: number): Promise<string[]> => {
        offsetMs = afterMs;
        const found: string[] = [];
        for (const room of ['own', 'open', 'year']) {
          const { json } = await server.get(`/v1/rooms/${room}/messages`, ada);
          if (json.items.length > 0) found.push(room);
        }
        return found;
      };
      expect(await kept(dayMs - 60_000)).toEqual(['own', 'open', 'year']);
      expect(await kept(dayMs + 60_000)).toEqual(['own', 'year']);
      expect(await kept(30 * dayMs - 60_000)).toEqual(['own', 'year']);
      expect(await kept(30 * dayMs + 60_000)).toEqual(['year']);
      expect(await kept(366 * dayMs)).toEqual([]);
    });
  });
}
