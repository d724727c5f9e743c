/** Two servers on one PostgreSQL and Redis: a change on one is seen on the other, also when notices are lost. */
import { randomUUID } from 'node:crypto';
import { Redis } from 'ioredis';
import { describe, expect, it } from 'vitest';
import { startCluster } from '../../../servers/redis.js';
import { noteServer } from '../../../servers/shared.js';
import { Agent, Stream } from '../../../messaging/kit.js';
import { until } from '../../../until.js';
import { useRedis } from './open-messaging.js';
import { at, withTwo } from './two-servers.js';

const redis = useRedis();

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

  it('and a reader who follows the feed of one from before a read misses no post to the other', async () => {
    await withTwo(redis.url, async (one, two) => {
      const ann = await one.agent();
      const room = await one.room(ann);
      const place = await one.stoa.messaging.rooms.find(null, room);
      const posts = { isOver: false, ids: new Set<string>() };
      const posting = (async () => {
        while (!posts.isOver) posts.ids.add((await at(two, ann).post(room, 'hello')).id);
      })();
      for (let reader = 0; reader < 20; reader += 1) {
        const since = await one.stoa.changes.newest();
        const { items } = await one.stoa.messaging.port.messages(place, { beforeMs: null, limit: 1_000 });
        const answered = new Set(posts.ids);
        const seen = new Set(items.map(({ id }) => id));
        await until(async () => {
          const { commits } = await one.stoa.home.feed.read({ since });
          for (const { changes } of commits) for (const { id } of changes) seen.add(id.split('/')[1] ?? '');
          return [...answered].every((id) => seen.has(id));
        });
      }
      posts.isOver = true;
      await posting;
    });
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
