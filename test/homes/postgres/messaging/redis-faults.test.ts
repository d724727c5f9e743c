/** Several servers on one PostgreSQL and Redis that fail, lose connections and change roles. */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { operatorCaller } from '../../../../src/core/caller.js';
import { openPostgres } from '../../../../src/homes/postgres/database/connection.js';
import { startGate } from '../../../servers/gate.js';
import { start as startPostgres } from '../../../servers/postgres.js';
import { start as startRedis, startCluster } from '../../../servers/redis.js';
import { noteServer, sharedPostgres } from '../../../servers/shared.js';
import { Agent, MessagingServer, Stream, roomy } from '../../../messaging/kit.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { eventually, until } from '../../../until.js';
import { openOn, useRedis } from './open-messaging.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';

const redis = useRedis();

const settings = { trustedProxies: ['127.0.0.0/8'] };

function open(
  postgres: string,
  redisUrl: string,
  limits: Partial<
    typeof roomy & {
      streamHeartbeatSeconds: number;
      channelReadsPerMinuteMax: number;
      statementSecondsMax: number;
      healthSecondsMax: number;
    }
  > = {},
): Promise<MessagingServer> {
  return openOn(postgres, redisUrl, { limits, messagingSettings: settings });
}

/** Runs the work with two servers on one PostgreSQL and Redis, and closes them afterwards. */
async function withTwo(
  redisUrl: string,
  work: (one: MessagingServer, two: MessagingServer) => Promise<void>,
  limits = {},
): Promise<void> {
  const { url } = await sharedPostgres();
  const servers = await Promise.all([open(url, redisUrl, limits), open(url, redisUrl, limits)]);
  try {
    await work(...(servers as [MessagingServer, MessagingServer]));
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
}

/** The same agent, connected to another server. */
function at(server: MessagingServer, agent: Agent): Agent {
  const same = new Agent(server, agent.seed);
  same.id = agent.id;
  return same;
}

/** Disconnects all subscribers repeatedly until the work is done. */
async function unheard(nodes: readonly Redis[], work: () => Promise<unknown>): Promise<void> {
  const done = new AbortController();
  const cut = () => Promise.all(nodes.map((node) => node.call('CLIENT', 'KILL', 'TYPE', 'pubsub')));
  await cut();
  const working = work().finally(() => done.abort());
  while (!done.signal.aborted) await cut();
  await working;
}

async function unheardByAnyone(work: () => Promise<unknown>): Promise<void> {
  const client = new Redis(redis.url);
  await unheard([client], work);
  client.disconnect();
}

describe('a change on one server takes effect on the other', () => {
  it('at once for deleted messages, blocks and unblocks', async () => {
    await withTwo(
      redis.url,
      async (one, two) => {
        const ann = await one.agent();
        const room = await one.room(ann);
        const word = `w${randomUUID().slice(0, 8)}`;
        const { id } = await ann.post(room, `${word} here`);
        expect((await two.ask('GET', `/find?q=${word}`)).json.results).toHaveLength(1);
        expect((await ann.ask('DELETE', `/room/${room}/${id}`)).status).toBe(204);
        expect((await two.ask('GET', `/room/${room}`)).json.messages).toEqual([]);
        expect((await two.ask('GET', `/room/${room}/${id}`)).status).toBe(404);
        expect((await two.ask('GET', `/find?q=${word}`)).json.results).toEqual([]);
        const from = { headers: { 'x-forwarded-for': '203.0.113.9' } };
        // The violations on both servers are counted together.
        await one.ask('GET', '/channels', from);
        for (let count = 0; count < 10; count += 1)
          expect((await (count % 2 === 0 ? one : two).ask('GET', '/channels', from)).status).toBe(429);
        for (const server of [one, two])
          expect((await server.ask('GET', '/room/global', from)).json).toEqual({
            error: 'temporarily blocked',
          });
        expect(
          (
            await two.ask('DELETE', '/v1/blocks?ip=203.0.113.9', {
              headers: { authorization: `Bearer ${two.stoa.operatorToken}` },
            })
          ).status,
        ).toBe(204);
        expect((await one.ask('GET', '/room/global', from)).status).toBe(200);
      },
      { channelReadsPerMinuteMax: 1 },
    );
  });

  it.each([
    ['told', 3_600, (work: () => Promise<unknown>) => work()],
    ['not told', 0.2, unheardByAnyone],
  ] as const)(
    'at once for a rotated key: streams of the old key end on all servers, also if the key was %s',
    async (_how, streamHeartbeatSeconds, during) => {
      await withTwo(
        redis.url,
        async (one, two) => {
          const ann = await one.agent();
          const bob = await one.agent();
          const streams = await Promise.all(
            [one, two].map((server) => Stream.open(`${server.url}/dm/stream`, at(server, ann).headers())),
          );
          const bobs = await Stream.open(`${two.url}/dm/stream`, at(two, bob).headers());
          const next = new Agent(one);
          next.id = ann.id;
          const proof = next.sign(`aicq-key-rotation|${ann.id}|${ann.publicKey}|${next.publicKey}`);
          await during(async () =>
            expect(
              (await ann.ask('POST', `/who/${ann.id}/key`, { body: { public_key: next.publicKey, proof } }))
                .status,
            ).toBe(200),
          );
          expect((await at(two, ann).ask('GET', '/dm')).json).toEqual({ error: 'invalid signature' });
          expect((await at(two, next).ask('GET', '/dm')).status).toBe(200);
          await until(() => streams.every(({ ended }) => ended));
          await at(two, next).ask('POST', `/dm/${bob.id}`, { body: { body: 'still open' } });
          await bobs.until(1);
          bobs.close();
        },
        { streamHeartbeatSeconds },
      );
    },
  );

  it('at once for wrong room keys: guessing on two servers is not faster', async () => {
    await withTwo(
      redis.url,
      async (one, two) => {
        const ann = await one.agent();
        const room = await one.room(ann, 'den', 'a key of sixteen or more');
        const wrong = await Promise.all(
          Array.from({ length: 20 }, (_, index) =>
            (index % 2 === 0 ? one : two).ask('GET', `/room/${room}`, {
              headers: {
                'x-aicq-room-key': `a wrong key, number ${index}`,
                'x-forwarded-for': '203.0.113.50',
              },
            }),
          ),
        );
        expect(wrong.filter(({ status }) => status === 403)).toHaveLength(3);
        expect(wrong.filter(({ status }) => status === 429)).toHaveLength(17);
      },
      { roomKeyGuessesPerMinuteMax: 3 },
    );
  });

  it('and a key that is registered on one and rotated to on the other gets one identity', async () => {
    await withTwo(redis.url, async (one, two) => {
      for (let round = 0; round < 8; round += 1) {
        const ann = await one.agent();
        const next = new Agent(two);
        const proof = next.sign(`aicq-key-rotation|${ann.id}|${ann.publicKey}|${next.publicKey}`);
        const [registered, rotated] = await Promise.all([
          two.ask('POST', '/register', { body: { public_key: next.publicKey } }),
          ann.ask('POST', `/who/${ann.id}/key`, { body: { public_key: next.publicKey, proof } }),
        ]);
        const { id } = registered.json;
        // Depending on the order, the key belongs to the new identity or to the one that rotated.
        expect([registered.status, rotated.status, id === ann.id]).toEqual(
          rotated.status === 200 ? [200, 200, true] : [201, 409, false],
        );
        expect((await one.ask('GET', `/who/${id}`)).json.public_key).toBe(next.publicKey);
      }
    });
  });
});

describe('lost notices', () => {
  it('on a lost connection leave no gap in streams', async () => {
    await withTwo(redis.url, async (one, two) => {
      const ann = await one.agent();
      const room = await one.room(ann);
      const stream = await Stream.open(`${two.url}/room/${room}/stream`);
      await stream.until(1, ({ events }) => events);
      const client = new Redis(redis.url);
      const texts = Array.from({ length: 12 }, (_, index) => `n${index}`);
      for (const [index, text] of texts.entries()) {
        await unheard([client], () => ann.post(room, text));
        // No later commit may contain it.
        await stream.until(index + 1);
      }
      client.disconnect();
      expect(stream.messages.map(({ data }) => data.body)).toEqual(texts);
      stream.close();
    });
  });

  it('on a cluster leave no gap, although the driver changes its node without an event', async () => {
    const cluster = await startCluster();
    await noteServer(cluster.describe);
    try {
      await withTwo(cluster.url, async (one, two) => {
        const ann = await one.agent();
        const room = await one.room(ann);
        const stream = await Stream.open(`${two.url}/room/${room}/stream`);
        await stream.until(1, ({ events }) => events);
        const nodes = cluster.url.split(',').map((url) => new Redis(url));
        for (let index = 0; index < 3; index += 1) {
          await unheard(nodes, () => ann.post(room, `n${index}`));
          await stream.until(index + 1);
        }
        for (const node of nodes) node.disconnect();
        expect(stream.messages.map(({ data }) => data.body)).toEqual(['n0', 'n1', 'n2']);
        stream.close();
      });
    } finally {
      await cluster.stop();
    }
  });
});

describe('Redis', () => {
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
      // The check and its statement have the same limit, and either may report it.
      checks: {
        postgres: { status: 'fail', message: expect.stringMatching(/answer within 0\.2 s\.$/) as string },
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
});
