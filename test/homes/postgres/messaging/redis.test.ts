/** Messaging on PostgreSQL and Redis: several servers, long searches, and databases that go away. */
import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { start as startPostgres } from '../../../servers/postgres.js';
import { start as startRedis, startCluster } from '../../../servers/redis.js';
import { noteServer, sharedPostgres, sharedKeys } from '../../../servers/shared.js';
import { MessagingServer, Stream, roomy } from '../../../messaging/kit.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { openOn, useRedis } from './open-messaging.js';
import { until } from '../../../until.js';

const redis = useRedis();

describe('several servers on one PostgreSQL and Redis', () => {
  it("accept a signed request once, keep one order, and receive each other's notices", async () => {
    const { url } = await sharedPostgres();
    const servers = await Promise.all([openOn(url, redis.url), openOn(url, redis.url)]);
    const [one, two] = servers as [MessagingServer, MessagingServer];
    try {
      const ann = await one.agent();
      const room = await one.room(ann);
      const stream = await Stream.open(`${two.url}/room/${room}/stream`);
      await stream.until(1, ({ events }) => events);
      const body = JSON.stringify({ body: 'once' });
      const headers = ann.headers(body);
      const copies = await Promise.all(
        Array.from({ length: 50 }, (_, index) =>
          (index % 2 === 0 ? one : two).ask('POST', `/room/${room}`, { raw: body, headers }),
        ),
      );
      expect(copies.filter(({ status }) => status === 201)).toHaveLength(1);
      await stream.until(1);
      const posts = await Promise.all(
        Array.from({ length: 60 }, (_, index) => {
          const raw = JSON.stringify({ body: `n${index}` });
          return (index % 2 === 0 ? one : two).ask('POST', `/room/${room}`, {
            raw,
            headers: ann.headers(raw),
          });
        }),
      );
      const times = posts.map(({ json }) => json.ts as number);
      expect(new Set(times).size).toBe(60);
      await stream.until(61);
      expect(stream.messages.slice(1).map(({ data }) => data.ts)).toEqual(times.toSorted((a, b) => a - b));
      stream.close();
      const counts = await Promise.all(
        servers.map(
          async (server) =>
            (await server.ask('GET', '/channels')).json.channels.find(({ id }: { id: string }) => id === room)
              ?.message_count,
        ),
      );
      expect(counts).toEqual([61, 61]);
    } finally {
      await Promise.all(servers.map((server) => server.close()));
    }
  });

  it('end the streams of an address that one server blocks', async () => {
    const { url } = await sharedPostgres();
    const settings = { trustedProxies: ['127.0.0.0/8'] };
    const servers = await Promise.all(
      [1, 2].map(() =>
        MessagingServer.open({
          limits: { ...roomy, channelReadsPerMinuteMax: 1 },
          postgres: url,
          secretKeys: sharedKeys,
          redis: redis.url,
          onError: () => undefined,
          messagingSettings: settings,
        }),
      ),
    );
    const [one, two] = servers as [MessagingServer, MessagingServer];
    const from = { 'x-forwarded-for': '203.0.113.40' };
    try {
      const stream = await Stream.open(`${two.url}/room/global/stream`, from);
      await stream.until(1, ({ events }) => events);
      for (let count = 0; count <= 10; count += 1) await one.ask('GET', '/channels', { headers: from });
      await until(async () => stream.ended);
    } finally {
      await one.stoa.messaging.gate.unblock('203.0.113.40');
      await Promise.all(servers.map((server) => server.close()));
    }
  });
});

describe('a search that stops at searchStepsMax', () => {
  it('continues from its cursor without losing or repeating a message', async () => {
    const server = await MessagingServer.open({
      limits: { ...roomy, searchStepsMax: 200 },
      postgres: (await sharedPostgres()).url,
      secretKeys: sharedKeys,
      redis: redis.url,
      onError: () => undefined,
    });
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      const tag = `t${randomUUID().slice(0, 8)}`;
      const port = writtenPort(server.stoa.messaging);
      const bodyOf = (index: number) => `${tag} ${index % 3 === 0 ? 'wanted' : 'other'}`;
      await Promise.all(
        Array.from({ length: 700 }, (_, index) =>
          port.post({
            roomId: room,
            from: ann.id,
            body: bodyOf(index),
            parentId: null,
            proof: null,
            serverSigned: false,
          }),
        ),
      );
      // Both lists have the same length, so one in three scanned messages is found.
      await Promise.all(
        Array.from({ length: 466 }, () =>
          port.post({
            roomId: room,
            from: ann.id,
            body: 'wanted elsewhere',
            parentId: null,
            proof: null,
            serverSigned: false,
          }),
        ),
      );
      const found: { id: string; ts: number }[] = [];
      let pages = 0;
      for (let cursor: string | undefined = ''; cursor !== undefined; pages += 1) {
        const { json } = await server.ask(
          'GET',
          `/find?q=${tag}+wanted&limit=100${cursor === '' ? '' : `&cursor=${cursor}`}`,
        );
        found.push(...json.results);
        expect(json.truncated).toBe(json.next_cursor === undefined ? undefined : true);
        cursor = json.next_cursor;
      }
      expect(pages).toBeGreaterThan(1);
      expect(new Set(found.map(({ id }) => id)).size).toBe(234);
      expect(found.map(({ ts }) => ts)).toEqual(found.map(({ ts }) => ts).toSorted((a, b) => b - a));
    } finally {
      await server.close();
    }
  });
});

describe('a search while others post', () => {
  it('shows every message once, although new posts shift the lists', async () => {
    const server = await openOn((await sharedPostgres()).url, redis.url);
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      const tag = randomUUID().slice(0, 8);
      const port = writtenPort(server.stoa.messaging);
      const post = (body: string) =>
        port.post({ roomId: room, from: ann.id, body, parentId: null, proof: null, serverSigned: false });
      // Two long lists share every tenth message, so a search needs several pages.
      await Promise.all(
        Array.from({ length: 1_000 }, (_, index) =>
          post(index % 10 === 0 ? `a${tag} b${tag}` : index % 2 === 0 ? `a${tag}` : `b${tag}`),
        ),
      );
      const stop = new AbortController();
      const posting = Array.from({ length: 3 }, async () => {
        while (!stop.signal.aborted) await Promise.all([post(`a${tag}`), post(`b${tag}`)]);
      });
      for (let round = 0; round < 6; round += 1) {
        const { json } = await server.ask('GET', `/find?q=a${tag}+b${tag}&limit=100`);
        expect(new Set(json.results.map(({ id }: { id: string }) => id)).size).toBe(100);
      }
      stop.abort();
      await Promise.all(posting);
    } finally {
      await server.close();
    }
  });
});

describe('an unreachable database', () => {
  it('Redis: signed calls and writes are refused with 503, and work again without a restart', async () => {
    const own = await startRedis();
    const port = new URL(own.url).port;
    const server = await openOn((await sharedPostgres()).url, own.url);
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      await ann.post(room, 'before');
      await own.stop();
      for (const answer of [
        await ann.ask('POST', `/room/${room}`, { body: { body: 'lost' } }),
        await ann.ask('GET', '/dm'),
        await server.ask('GET', '/health'),
      ])
        expect(answer.status).toBe(503);
      const back = await startRedis(['--port', port]);
      try {
        await until(async () => (await server.ask('GET', '/health')).status === 200);
        await ann.post(room, 'after');
        const { messages } = (await server.ask('GET', `/room/${room}`)).json;
        expect(messages.map(({ body }: { body: string }) => body)).toEqual(['after']);
      } finally {
        await back.stop();
      }
    } finally {
      await server.close();
    }
  });

  it('PostgreSQL: rooms are refused with 503, as no server knows whether they still exist', async () => {
    const own = await startPostgres();
    const server = await openOn(own.url, redis.url);
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      await ann.post(room, 'known');
      await own.stop();
      expect((await server.ask('GET', `/room/${room}`)).status).toBe(503);
      expect((await ann.ask('POST', `/room/${room}`, { body: { body: 'x' } })).status).toBe(503);
      expect((await server.ask('GET', '/channels')).status).toBe(503);
      expect((await server.ask('GET', '/health')).json).toMatchObject({
        status: 'degraded',
        checks: { postgres: { status: 'fail', message: expect.any(String) }, redis: { status: 'pass' } },
      });
    } finally {
      await server.close();
    }
  });

  it('PostgreSQL: works again without a restart', async () => {
    const own = await startPostgres();
    const server = await openOn(own.url, redis.url);
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      await ann.post(room, 'before');
      const post = (body: string) =>
        writtenPort(server.stoa.messaging).post({
          roomId: room,
          from: ann.id,
          body,
          parentId: null,
          proof: null,
          serverSigned: false,
        });
      await own.halt();
      expect((await ann.ask('POST', `/room/${room}`, { body: { body: 'unchecked' } })).status).toBe(503);
      expect((await server.ask('POST', '/register', { body: { public_key: ann.publicKey } })).status).toBe(
        503,
      );
      expect((await ann.ask('POST', '/room', { body: { name: 'nowhere' } })).status).toBe(503);
      // The signature was checked before the outage, but nobody knows whether the room still exists.
      await expect(post('meanwhile')).rejects.toMatchObject({ code: 'backend_unavailable' });
      await own.resume();
      await until(async () => (await server.ask('GET', '/health')).status === 200);
      const count = async () =>
        (await server.ask('GET', '/channels?limit=100')).json.channels.find(
          ({ id }: { id: string }) => id === room,
        )?.message_count;
      await ann.post(room, 'after');
      await until(async () => (await count()) === 2);
      const { messages } = (await server.ask('GET', `/room/${room}`)).json;
      expect(messages.map(({ body }: { body: string }) => body)).toEqual(['after', 'before']);
    } finally {
      await server.close();
      await own.stop();
    }
  });

  it('PostgreSQL: the next server announces a message that a stopped server left, once', async () => {
    const { url } = await sharedPostgres();
    const sql = await openPostgres(new URL(url), { connectionsMax: 1 });
    const first = await openOn(url, redis.url);
    const ann = await first.agent();
    const room = await first.room(ann);
    const ids = [(await ann.post(room, 'before')).id];
    // From here on messages are stored in Redis, and get no further.
    await query(
      sql,
      `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$;
      CREATE TRIGGER refuse BEFORE INSERT ON feed.added_entries EXECUTE FUNCTION refuse()`,
    );
    for (const body of ['meanwhile', 'meanwhile as well']) ids.push((await ann.post(room, body)).id);
    await first.close();
    await query(sql, 'DROP TRIGGER refuse ON feed.added_entries');
    await closePostgres(sql, 1);
    const seconds = await Promise.all([openOn(url, redis.url), openOn(url, redis.url)]);
    try {
      const { stoa } = seconds[0];
      await until(async () => (await stoa.messaging.port.room(room))?.messageCount === 3);
      // Numbers what is committed.
      await stoa.home.feed.newest();
      const { commits } = await stoa.home.feed.read({});
      const announced = commits.flatMap(({ changes }) =>
        changes.filter(({ kind }) => kind === 'message.posted').map(({ id }) => id),
      );
      expect(announced).toEqual(ids.map((id) => `${room}/${id}`));
    } finally {
      for (const server of seconds) await server.close();
    }
  });
});

describe('a Redis cluster of three masters', () => {
  it('supports posts, threads, search, direct messages, streams and limits', async () => {
    const cluster = await startCluster();
    await noteServer(cluster.describe);
    const server = await openOn((await sharedPostgres()).url, cluster.url);
    try {
      const [ann, bob] = [await server.agent(), await server.agent()];
      const room = await server.room(ann);
      const stream = await Stream.open(`${server.url}/room/${room}/stream`);
      await stream.until(1, ({ events }) => events);
      const root = await ann.post(room, 'clustered words here');
      await bob.post(room, 'clustered answer', { pid: root.id });
      await stream.until(2);
      stream.close();
      expect((await server.ask('GET', `/room/${room}/${root.id}/thread`)).json.messages).toHaveLength(2);
      expect(
        (await server.ask('GET', '/find?q=words+clustered')).json.results.map(({ id }: { id: string }) => id),
      ).toEqual([root.id]);
      expect((await server.ask('GET', '/find?q=clustered')).json.results).toHaveLength(2);
      const direct = (await ann.ask('POST', `/dm/${bob.id}`, { body: { body: 'hi' } })).json;
      expect((await bob.ask('POST', '/dm/ack', { body: { ids: [direct.id] } })).json).toEqual({
        acknowledged: 1,
      });
      expect((await bob.ask('GET', '/dm')).json.messages).toHaveLength(1);
      const body = JSON.stringify({ body: 'once' });
      const headers = ann.headers(body);
      const copies = await Promise.all(
        Array.from({ length: 20 }, () => server.ask('POST', `/room/${room}`, { raw: body, headers })),
      );
      expect(copies.filter(({ status }) => status === 201)).toHaveLength(1);
      await ann.ask('DELETE', `/room/${room}/${root.id}`);
      expect((await server.ask('GET', '/find?q=words+clustered')).json.results).toEqual([]);
    } finally {
      await server.close();
      await cluster.stop();
    }
  });
});
