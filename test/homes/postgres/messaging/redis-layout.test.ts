/** What messaging stores in Redis, for other programs that use the seed's layout. */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { newUlid } from '../../../../src/messaging/messages/ulid.js';
import { sharedPostgres, sharedKeys } from '../../../servers/shared.js';
import { MessagingServer, Stream, roomy } from '../../../messaging/kit.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { openOn, useRedis } from './open-messaging.js';

const redis = useRedis();

describe('messages that another AICQ server wrote', () => {
  it('work by id like all others, even if the id contains another time', async () => {
    const server = await openOn((await sharedPostgres()).url, redis.url);
    const client = new Redis(redis.url);
    try {
      const ann = await server.agent('Ann');
      const room = await server.room(ann);
      const nowMs = Date.now();
      // The id and the time are from two readings of the clock, and two messages share a time.
      const write = async (body: string, idMs: number, ts: number) => {
        const id = newUlid(idMs);
        const member = JSON.stringify({ ts, from: ann.id, room_id: room, body, id });
        await client.zadd(`room:${room}:messages`, ts, member);
        await client.zadd('search:words:foreign', ts, `${room}:${id}`);
        return id;
      };
      const ids = [
        await write('foreign one', nowMs - 5_000, nowMs - 2_000),
        await write('foreign two', nowMs - 2_001, nowMs - 2_000),
        await write('foreign three', nowMs - 60_000, nowMs - 1_000),
      ];
      for (const [at, id] of ids.entries())
        expect([at, (await server.ask('GET', `/room/${room}/${id}`)).json.id]).toEqual([at, id]);
      // A message that arrived after the room was scanned.
      ids.push(await write('foreign four', nowMs - 900, nowMs - 500));
      expect((await server.ask('GET', `/room/${room}/${ids[3]}`)).json.body).toBe('foreign four');
      expect((await server.ask('GET', `/room/${room}/${newUlid(nowMs - 5_000)}`)).status).toBe(404);
      const answer = await ann.post(room, 'an answer', { pid: ids[0] ?? '' });
      const thread = (await server.ask('GET', `/room/${room}/${answer.id}/thread`)).json.messages;
      expect(thread.map(({ id }: { id: string }) => id)).toEqual([ids[0], answer.id]);
      const found = (await server.ask('GET', '/find?q=foreign')).json.results;
      expect(found.map(({ id }: { id: string }) => id).toSorted()).toEqual([...ids].toSorted());
      // A page contains all messages of its last time, so that the next page misses none.
      const bodies: string[] = [];
      for (let cursor = ''; ;) {
        const { json } = await server.ask('GET', `/room/${room}?after=0&limit=1${cursor}`);
        bodies.push(...json.messages.map(({ body }: { body: string }) => body));
        if (json.next_cursor === undefined) break;
        cursor = `&cursor=${json.next_cursor}`;
      }
      expect(bodies.toSorted()).toEqual(
        ['an answer', 'foreign four', 'foreign one', 'foreign three', 'foreign two'].toSorted(),
      );
      const stream = await Stream.open(`${server.url}/room/${room}/stream?after=0`);
      await stream.until(5);
      stream.close();
      expect((await ann.ask('DELETE', `/room/${room}/${ids[0]}`)).status).toBe(204);
      expect((await server.ask('GET', `/room/${room}/${ids[1]}`)).status).toBe(200);
      // A new message comes after the newest one, even if another server wrote that one.
      await write('foreign ahead', nowMs, Date.now() + 30_000);
      const { ts } = await ann.post(room, 'after it');
      expect(ts).toBeGreaterThan(Date.now() + 20_000);
      const letter = newUlid(nowMs - 5_000);
      const member = JSON.stringify({ from: ann.id, to: ann.id, body: 'x', ts: nowMs - 10, id: letter });
      await client.zadd(`dm:${ann.id}:inbox`, nowMs - 10, member);
      expect((await ann.ask('POST', '/dm/ack', { body: { ids: [letter] } })).json).toEqual({
        acknowledged: 1,
      });
      expect((await ann.ask('GET', '/dm?pending=1')).json.messages).toEqual([]);
      const lives = (await client.keys('*:scores*')).map((key) => client.pttl(key));
      for (const life of await Promise.all(lives)) expect(life).toBeGreaterThan(0);
    } finally {
      client.disconnect();
      await server.close();
    }
  });
});

describe('the stored layout', () => {
  it("has the seed's keys and types, and every key except stoa:store expires", async () => {
    const client = new Redis(redis.url);
    const settings = { trustedProxies: ['127.0.0.0/8'] };
    const server = await MessagingServer.open({
      limits: { ...roomy, channelReadsPerMinuteMax: 1 },
      postgres: (await sharedPostgres()).url,
      secretKeys: sharedKeys,
      redis: redis.url,
      onError: () => undefined,
      messagingSettings: settings,
    });
    try {
      const [ann, bob] = [await server.agent(), await server.agent()];
      const room = await server.room(ann);
      const nonce = randomUUID();
      const body = JSON.stringify({ body: 'Hello seed layout' });
      const posted = (
        await server.ask('POST', `/room/${room}`, { raw: body, headers: ann.headers(body, { nonce }) })
      ).json;
      const answer = await ann.post(room, 'an answer', { pid: posted.id });
      const letter = (await ann.ask('POST', `/dm/${bob.id}`, { body: { body: 'b3BhcXVl' } })).json;
      await bob.ask('POST', '/dm/ack', { body: { ids: [letter.id] } });
      await server.ask('GET', `/find?q=hello+layout`);
      const refuse = async (address: string, times: number) => {
        for (let count = 0; count <= times; count += 1)
          await server.ask('GET', '/channels', { headers: { 'x-forwarded-for': address } });
      };
      await refuse('203.0.113.1', 3);
      await refuse('203.0.113.2', 10);

      const [minuteMs, hourMs, dayMs] = [60_000, 3_600_000, 86_400_000];
      const expected: readonly (readonly [key: string, type: string, lifeMs: number])[] = [
        [`room:${room}:messages`, 'zset', dayMs],
        [`dm:${bob.id}:inbox`, 'zset', 7 * dayMs],
        ['search:words:layout', 'zset', dayMs],
        [`nonce:${ann.id}:${nonce}`, 'string', 3 * minuteMs],
        [`msgbytes:${ann.id}`, 'string', minuteMs],
        ['ratelimit:ip:203.0.113.1:channels:60', 'zset', 2 * minuteMs],
        [`ratelimit:agent:${ann.id}:post:60`, 'zset', 2 * minuteMs],
        [`ratelimit:agent:${ann.id}:create-room:3600`, 'zset', 2 * hourMs],
        ['violations:ip:203.0.113.1', 'string', hourMs],
        ['blocked:ip:203.0.113.2', 'string', dayMs],
        [`room:${room}:clock`, 'string', dayMs],
        [`room:${room}:count`, 'string', 7 * dayMs],
        [`room:${room}:thread:${posted.id}`, 'zset', dayMs],
        [`dm:${bob.id}:clock`, 'string', 7 * dayMs],
        [`dm:${bob.id}:acked`, 'zset', 7 * dayMs],
        [`dm:${bob.id}:pending`, 'zset', 7 * dayMs],
      ];
      for (const [key, type, lifeMs] of expected) {
        const life = await client.pttl(key);
        // On a busy machine, the time that passed reduces the life of the key.
        expect([key, await client.type(key), life <= lifeMs && life > lifeMs - 50_000]).toEqual([
          key,
          type,
          true,
        ]);
      }
      const keys = await client.keys('*');
      expect(keys.filter((key) => key.startsWith('search:temp'))).toEqual([]);
      const lives = await Promise.all(keys.map(async (key) => [key, await client.pttl(key)] as const));
      expect(lives.filter(([, life]) => life <= 0)).toEqual([['stoa:store', -1]]);

      const members = await client.zrange(`room:${room}:messages`, '0', '-1', 'WITHSCORES');
      expect([members[1], members[3]]).toEqual([String(posted.ts), String(answer.ts)]);
      expect(JSON.parse(members[0] as string)).toMatchObject({
        id: posted.id,
        room_id: room,
        from: ann.id,
        body: 'Hello seed layout',
        ts: posted.ts,
        sig: expect.any(String),
      });
      expect(JSON.parse(members[2] as string)).toMatchObject({ id: answer.id, pid: posted.id });
      expect(JSON.parse((await client.zrange(`dm:${bob.id}:inbox`, '0', '-1'))[0] as string)).toMatchObject({
        id: letter.id,
        from: ann.id,
        to: bob.id,
        body: 'b3BhcXVl',
        ts: letter.ts,
      });
      expect(await client.zrange('search:words:hello', '0', '-1', 'WITHSCORES')).toEqual([
        `${room}:${posted.id}`,
        String(posted.ts),
      ]);
      expect(
        await client.mget(
          `msgbytes:${ann.id}`,
          `nonce:${ann.id}:${nonce}`,
          'violations:ip:203.0.113.1',
          'blocked:ip:203.0.113.2',
        ),
      ).toEqual(['26', '1', '3', 'rate limit exceeded: GET /channels']);
    } finally {
      client.disconnect();
      await server.close();
    }
  });

  it('rebuilds a missing list of pending messages, and reads no other messages', async () => {
    const client = new Redis(redis.url);
    const server = await openOn((await sharedPostgres()).url, redis.url);
    try {
      const [ann, bob] = [await server.agent(), await server.agent()];
      const port = writtenPort(server.stoa.messaging);
      const letters = await Promise.all(
        Array.from({ length: 450 }, () =>
          port.send({ to: bob.id, from: ann.id, body: 'x', proof: null, serverSigned: false }),
        ),
      );
      const inOrder = letters.toSorted((a, b) => a.tsMs - b.tsMs).map(({ id }) => id);
      const [first, ...others] = inOrder as [string, ...string[]];
      const last = others.pop() as string;
      expect(await port.acknowledge(bob.id, others)).toBe(448);
      const pending = async (limit: number) =>
        (await port.pending(bob.id, 0, limit)).items.map(({ id }) => id);
      for (const prepare of [() => undefined, () => client.del(`dm:${bob.id}:pending`), () => undefined]) {
        await prepare();
        expect([await pending(1), await pending(10)]).toEqual([[first], [first, last]]);
      }
      expect((await bob.ask('GET', '/dm?pending=1&limit=1')).json).toMatchObject({
        has_more: true,
        messages: [{ id: first }],
      });
      // A message that arrives while the list is missing is in the rebuilt list.
      await client.del(`dm:${bob.id}:pending`);
      const late = await port.send({
        to: bob.id,
        from: ann.id,
        body: 'late',
        proof: null,
        serverSigned: false,
      });
      expect(await pending(10)).toEqual([first, last, late.id]);
      expect(await port.acknowledge(bob.id, [first, last, late.id])).toBe(3);
      expect(await pending(10)).toEqual([]);
      expect(
        (await bob.ask('GET', '/dm')).json.messages.every(
          ({ acknowledged }: { acknowledged?: boolean }) => acknowledged === true,
        ),
      ).toBe(true);
    } finally {
      client.disconnect();
      await server.close();
    }
  });

  it('reports the durability that Redis is configured for', async () => {
    const client = new Redis(redis.url);
    const warnings: string[] = [];
    const { url } = await sharedPostgres();
    const durable = async () => {
      const server = await MessagingServer.open({
        postgres: url,
        secretKeys: sharedKeys,
        redis: redis.url,
        onError: (_error, about) => void warnings.push(about),
      });
      const { capabilities } = await server.stoa.operations.status();
      await server.close();
      return capabilities.messages.durable;
    };
    try {
      expect([await durable(), warnings]).toEqual([true, []]);
      await client.config('SET', 'appendfsync', 'everysec');
      expect([await durable(), warnings]).toEqual([
        false,
        ['messages may be lost when the machine of Redis fails'],
      ]);
    } finally {
      await client.config('SET', 'appendfsync', 'always');
      client.disconnect();
    }
  });
});
