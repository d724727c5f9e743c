/** Servers on a PostgreSQL and a Redis that fail, hang and change roles. */
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { startGate } from '../../../servers/gate.js';
import { start as startPostgres } from '../../../servers/postgres.js';
import { start as startRedis } from '../../../servers/redis.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { Agent } from '../../../messaging/kit.js';
import { linkTo } from '../../../messaging/link.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { eventually, until } from '../../../until.js';
import { useRedis } from './open-messaging.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import { open } from './two-servers.js';

const redis = useRedis();

describe('Redis', () => {
  it('that does not answer a second subscription does not end the process of a server that closes', async () => {
    let subscriptions = 0;
    const gate = await startGate(redis.url, {
      hold: (sent) => {
        if (!/\bsubscribe\b/.test(sent.toString('latin1'))) return undefined;
        subscriptions += 1;
        return subscriptions === 1 ? undefined : new Promise(() => undefined);
      },
    });
    const unhandled: unknown[] = [];
    const note = (error: unknown) => void unhandled.push(error);
    process.on('unhandledRejection', note);
    try {
      const server = await open((await sharedPostgres()).url, gate.url);
      gate.reset();
      await until(() => subscriptions > 1);
      await server.close();
      // The rejected promises of a turn are reported when it ends.
      await new Promise((resolve) => setImmediate(resolve));
      expect(unhandled).toEqual([]);
    } finally {
      process.off('unhandledRejection', note);
      await gate.close();
    }
  });

  it('killed during posts has every acknowledged message exactly once after its restart', async () => {
    const own = await startRedis();
    const server = await open((await sharedPostgres()).url, own.url);
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      const acknowledged: string[] = [];
      const refused = new Set<number>();
      const enough = new AbortController();
      const posting = Array.from({ length: 6 }, async (_, poster) => {
        for (let index = 0; !enough.signal.aborted; index += 1) {
          const { status, json } = await ann.ask('POST', `/room/${room}`, {
            body: { body: `${poster}-${index}` },
          });
          if (status === 201) acknowledged.push(json.id);
          else refused.add(status);
        }
      });
      await until(() => acknowledged.length > 30);
      await own.halt();
      await until(() => refused.size > 0);
      const before = acknowledged.length;
      await own.resume();
      await until(() => acknowledged.length > before + 10);
      enough.abort();
      await Promise.all(posting);
      expect([...refused]).toEqual([503]);
      const stored: { id: string; body: string }[] = [];
      for (let cursor = ''; ;) {
        const { json } = await server.ask('GET', `/room/${room}?limit=200${cursor}`);
        stored.push(...json.messages);
        if (json.next_cursor === undefined) break;
        cursor = `&cursor=${json.next_cursor}`;
      }
      const ids = new Set(stored.map(({ id }) => id));
      expect(acknowledged.filter((id) => !ids.has(id))).toEqual([]);
      expect(new Set(stored.map(({ body }) => body)).size).toBe(stored.length);
    } finally {
      await server.close();
      await own.stop();
    }
  });

  it('restored from an older copy lacks the messages in between, and counts, finds and reports all others', async () => {
    const own = await startRedis();
    const server = await open((await sharedPostgres()).url, own.url);
    const client = new Redis(own.url);
    try {
      const authorization = `Bearer ${server.stoa.operatorToken}`;
      const found = async (word: string): Promise<string[]> => {
        const { json } = await server.ask('GET', `/v1/find?q=${word}&in=messages`, {
          headers: { authorization },
        });
        return json.items.map(({ id }: { id: string }) => id);
      };
      const since = await server.stoa.changes.newest();
      const ann = await server.agent();
      const room = await server.room(ann);
      const before = await ann.post(room, 'kept walrus');
      const keys = await client.keys('*');
      const copy = await Promise.all(keys.map((key) => client.dumpBuffer(key)));
      for (const word of ['lost', 'gone']) await ann.post(room, `${word} walrus`);
      expect(await found('walrus')).toHaveLength(3);
      await client.flushall();
      await Promise.all(copy.map((dump, index) => client.restore(keys[index] ?? '', 0, dump)));
      const after = await ann.post(room, 'new walrus');
      const { json } = await server.ask('GET', `/room/${room}`);
      const kept = [before.id, after.id].toSorted();
      expect(json.messages.map(({ id }: { id: string }) => id).toSorted()).toEqual(kept);
      expect((await found('walrus')).toSorted()).toEqual(kept);
      expect(await found('lost')).toEqual([]);
      const list = (await server.ask('GET', '/channels')).json;
      expect(list.channels.find(({ id }: { id: string }) => id === room)).toMatchObject({ message_count: 4 });
      const { commits } = await server.stoa.home.feed.read({ since });
      const posted = commits
        .flatMap(({ changes }) => changes)
        .filter(({ kind }) => kind === 'message.posted');
      expect(new Set(posted.map(({ id }) => id)).size).toBe(4);
      expect(posted).toHaveLength(4);
    } finally {
      client.disconnect();
      await server.close();
      await own.stop();
    }
  });

  it('that hangs delays a request under /v1 by a second at most, and blocks hold again afterwards', async () => {
    const { url } = await sharedPostgres();
    const gate = await startGate(redis.url);
    const server = await open(url, gate.url, { channelReadsPerMinuteMax: 1 });
    try {
      const from = { 'x-forwarded-for': '203.0.113.10' };
      const authorization = `Bearer ${server.stoa.operatorToken}`;
      const read = () => server.ask('GET', '/v1/agents', { headers: { ...from, authorization } });
      for (let count = 0; count < 11; count += 1) await server.ask('GET', '/channels', { headers: from });
      expect((await read()).status).toBe(403);
      gate.silence();
      const startedMs = performance.now();
      expect((await read()).status).toBe(200);
      // The lookup that hangs is not waited for a second time.
      for (let count = 0; count < 20; count += 1) expect((await read()).status).toBe(200);
      expect(performance.now() - startedMs).toBeLessThan(4_000);
      gate.speak();
      await until(async () => (await read()).status === 403);
    } finally {
      gate.speak();
      await server.close();
      await gate.close();
    }
  });

  it('that hangs delays lists of rooms, totals and positions less than a command of Redis', async () => {
    const { url } = await sharedPostgres();
    const gate = await startGate(redis.url);
    const server = await open(url, gate.url);
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      await ann.post(room, 'before');
      gate.silence();
      const { port } = server.stoa.messaging;
      const command = port.nonceUsed(ann.id, 'a nonce').catch(() => 'Redis');
      for (const shown of [
        port.publicRooms(10, 0),
        port.ownRooms(null, null, 10),
        port.totals(),
        server.stoa.changes.newest(),
      ])
        expect(await Promise.race([command, shown])).not.toBe('Redis');
      expect(await command).toBe('Redis');
    } finally {
      gate.speak();
      await server.close();
      await gate.close();
    }
  });

  it('that became a replica refuses writes, and is used again when it is a master', async () => {
    const own = await startRedis();
    const client = new Redis(own.url);
    const server = await open((await sharedPostgres()).url, own.url);
    try {
      const ann = await server.agent();
      await client.replicaof('127.0.0.1', 1);
      expect((await ann.ask('POST', '/room/global', { body: { body: 'x' } })).status).toBe(503);
      expect((await ann.ask('GET', '/dm')).status).toBe(503);
      await client.replicaof('NO', 'ONE');
      await until(
        async () => (await ann.ask('POST', '/room/global', { body: { body: 'after' } })).status === 201,
      );
    } finally {
      client.disconnect();
      await server.close();
      await own.stop();
    }
  });

  it('that is full refuses writes, and no request is accepted without its checks', async () => {
    const own = await startRedis();
    const client = new Redis(own.url);
    const server = await open((await sharedPostgres()).url, own.url);
    try {
      const ann = await server.agent();
      const { ts } = await ann.post('global', 'before');
      await client.config('SET', 'maxmemory', '1mb');
      expect((await ann.ask('POST', '/room/global', { body: { body: 'x' } })).status).toBe(503);
      expect((await ann.ask('GET', '/dm')).status).toBe(503);
      const message = { roomId: globalRoomId, from: ann.id, body: 'x', parentId: null, proof: null };
      await expect(
        writtenPort(server.stoa.messaging).post({ ...message, serverSigned: false }),
      ).rejects.toMatchObject({ code: 'disk_full', message: expect.stringContaining('Redis is full') });
      // Requests that need no Redis still work.
      const headers = { authorization: `Bearer ${server.stoa.operatorToken}` };
      expect((await server.ask('PUT', '/v1/data/n/k', { headers, body: { value: 1 } })).status).toBe(201);
      const direct = await server.ask('POST', '/v1/inbox', {
        headers: { ...headers, 'stoa-user': 'ada', 'stoa-agent': 'writer' },
        body: { to: ann.id, body: 'x' },
      });
      expect([direct.status, direct.json['code']]).toEqual([503, 'disk_full']);
      // A commit is accepted, and its message waits in the outbox.
      const operations = [{ op: 'room.post', room: 'global', body: 'waits' }];
      expect((await server.ask('POST', '/v1/commit', { headers, body: { operations } })).json).toMatchObject({
        ok: true,
        results: [{ queued: true }],
      });
      expect((await server.ask('GET', `/room/global?after=${ts}`)).json.messages).toEqual([]);
      await client.config('SET', 'maxmemory', '0');
      await eventually(async () =>
        expect((await server.ask('GET', `/room/global?after=${ts}`)).json.messages).toMatchObject([
          { body: 'waits' },
        ]),
      );
      expect((await ann.ask('GET', '/dm')).status).toBe(200);
    } finally {
      client.disconnect();
      await server.close();
      await own.stop();
    }
  });
});

describe('PostgreSQL', () => {
  it('that hangs is reported by the health check in time, until it answers again', async () => {
    const gate = await startGate((await sharedPostgres()).url);
    // Statements have no time limit here: the health check must not wait for them.
    const server = await open(gate.url, redis.url, { statementSecondsMax: 3_600, healthSecondsMax: 0.2 });
    const health = async () => (await server.ask('GET', '/health')).json;
    const silent = {
      status: 'degraded',
      // The check, its statement and a beat on the same connection have the same limit, and each may report it.
      checks: {
        postgres: {
          status: 'fail',
          message: expect.stringMatching(/answer( within 0\.2 s\.$|: write CONNECTION_CLOSED )/) as string,
        },
      },
    };
    try {
      await until(async () => (await health())['status'] === 'healthy');
      gate.silence();
      expect(await Promise.all([health(), health()])).toMatchObject([silent, silent]);
      expect((await server.ask('GET', '/readyz')).status).toBe(503);
      expect((await server.ask('GET', '/livez')).status).toBe(200);
      gate.speak();
      await until(async () => (await health())['status'] === 'healthy');
    } finally {
      gate.speak();
      await server.close();
      await gate.close();
    }
  });

  it('that loses the answer of a post finds the message again under its Idempotency-Key', async () => {
    const { url } = await sharedPostgres();
    const server = await open(url, redis.url);
    const admin = await openPostgres(new URL(url), { connectionsMax: 1 });
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      const { id: parent } = await ann.post(room, 'a question');
      await admin.unsafe('CREATE SEQUENCE attempts');
      await admin.unsafe(
        `CREATE FUNCTION fail_first() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
          IF nextval('attempts') = 1 THEN RAISE 'the connection is lost' USING ERRCODE = '57P01'; END IF;
          RETURN NEW; END $$`,
      );
      await admin.unsafe(
        'CREATE TRIGGER fail_first BEFORE INSERT ON kept_answers FOR EACH ROW EXECUTE FUNCTION fail_first()',
      );
      const post = () =>
        ann.ask('POST', `/room/${room}`, {
          body: { body: 'once', pid: parent },
          headers: { 'idempotency-key': 'k' },
        });
      expect((await post()).status).toBe(503);
      expect((await ann.ask('DELETE', `/room/${room}/${parent}`)).status).toBe(204);
      const { status, json } = await post();
      expect(status).toBe(201);
      expect((await post()).json).toEqual(json);
      expect((await server.ask('GET', `/room/${room}`)).json.messages).toMatchObject([
        { id: json.id, body: 'once' },
      ]);
    } finally {
      await server.close();
      await admin.end();
    }
  });

  it('that became a standby refuses registrations and rooms, and is used again as primary', async () => {
    const own = await startPostgres();
    const server = await open(own.url, redis.url);
    const admin = await openPostgres(new URL(own.url), { connectionsMax: 1 });
    /** Applies to new sessions only, so the old ones are ended, as in a failover. */
    const becomeStandby = async (isStandby: boolean) => {
      await admin.unsafe('SET default_transaction_read_only = off');
      await admin.unsafe(`ALTER ROLE stoa SET default_transaction_read_only = ${isStandby ? 'on' : 'off'}`);
      await admin.unsafe(
        `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE pid <> pg_backend_pid() AND usename = current_user`,
      );
    };
    try {
      const ann = await server.agent();
      const room = await server.room(ann);
      await becomeStandby(true);
      const register = async () =>
        (await server.ask('POST', '/register', { body: { public_key: new Agent(server).publicKey } })).status;
      for (let count = 0; count < 3; count += 1) expect(await register()).toBe(503);
      expect((await ann.ask('POST', '/room', { body: { name: 'nowhere' } })).status).toBe(503);
      // A standby can be read, so signatures are checked. Redis stores the message, and its count is added to
      // PostgreSQL later.
      const posted = { id: '' };
      await until(async () => {
        const { status, json } = await ann.ask('POST', `/room/${room}`, { body: { body: 'meanwhile' } });
        posted.id = json.id;
        return status === 201;
      });
      expect(await server.ask('GET', '/readyz')).toMatchObject({
        status: 503,
        json: { status: 'writes_stopped' },
      });
      expect((await server.ask('GET', '/health')).json.checks).toMatchObject({
        postgres: { status: 'fail', message: 'PostgreSQL is read-only. Nothing was stored.' },
        redis: { status: 'pass' },
      });
      await becomeStandby(false);
      await until(async () => (await server.ask('GET', '/readyz')).status === 200);
      await until(async () => (await register()) === 201);
      await until(
        async () =>
          (await server.ask('GET', '/channels?limit=100')).json.channels?.find(
            ({ id }: { id: string }) => id === room,
          )?.message_count === 1,
      );
      const told = async () =>
        (await server.stoa.changes.read(operatorCaller(), {})).items.filter(
          ({ id }) => id === `${room}/${posted.id}`,
        );
      await until(async () => (await told()).length > 0);
      expect(await told()).toHaveLength(1);
    } finally {
      await server.close();
      await admin.end();
      await own.stop();
    }
  });

  it.each(['agents', 'registry.identity_links'])(
    'that does not answer for the table %s counts no signed request by its address',
    async (table) => {
      const { url } = await sharedPostgres();
      const limits = { postsPerMinuteMax: 2, statementSecondsMax: 1 };
      const server = await open(url, redis.url, limits);
      const other = await openPostgres(new URL(url), { connectionsMax: 1 });
      try {
        const ann = await server.agent();
        const room = await server.room(ann);
        await linkTo(server, ann);
        const posts = await other.begin(async (sql) => {
          await query(sql, `LOCK TABLE ${table} IN ACCESS EXCLUSIVE MODE`);
          return Promise.all([1, 2, 3].map(() => ann.ask('POST', `/room/${room}`, { body: { body: 'x' } })));
        });
        expect(posts.map(({ status }) => status)).toEqual([503, 503, 503]);
        const forged = { body: { body: 'x' }, headers: { 'x-aicq-signature': 'forged' } };
        const answers = [];
        for (let count = 0; count < 3; count += 1)
          answers.push((await ann.ask('POST', `/room/${room}`, forged)).status);
        expect(answers).toEqual([401, 401, 429]);
      } finally {
        await other.end();
        await server.close();
      }
    },
  );
});
