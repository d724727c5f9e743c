import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Stoa, openStoa } from '../../../../src/index.js';
import { PostgresMessaging } from '../../../../src/homes/postgres/messaging/messaging.js';
import type { Delivery } from '../../../../src/homes/postgres/messaging/redis/deliveries.js';
import type { Delivered, NewDirectMessage, NewMessage } from '../../../../src/messaging/port.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import type { TestServer } from '../../../servers/child.js';
import { start as startRedis, startCluster } from '../../../servers/redis.js';
import { noteServer, sharedKeys, sharedPostgres } from '../../../servers/shared.js';
import { writtenPort } from '../../../../src/messaging/conformance/kit/written-port.js';
import { publicRoom } from '../../../messaging/public-room.js';

/** Each opens messaging on a separate backend. */
const backends = [
  { name: 'Redis', redis: startRedis },
  { name: 'a Redis cluster', redis: startCluster },
];

describe.each(backends)('a delivery of a commit to $name', ({ redis }) => {
  let server: TestServer;
  let stoa: Stoa;
  let author: string;

  beforeAll(async () => {
    server = await redis();
    await noteServer(server.describe);
    stoa = await openStoa({
      postgres: (await sharedPostgres()).url,
      redis: server.url,
      secretKeys: sharedKeys,
      onError: () => undefined,
    });
    author = (
      await writtenPort(stoa.messaging).register({
        publicKey: Buffer.alloc(32, 9).toString('base64'),
        name: 'author',
        email: null,
        proven: true,
      })
    ).identity.id;
  }, 60_000);
  afterAll(async () => {
    await stoa.close();
    await server.stop();
  });

  const post = (body: string, more: Partial<NewMessage> = {}): NewMessage => ({
    roomId: globalRoomId,
    from: author,
    body,
    parentId: null,
    proof: null,
    serverSigned: false,
    ...more,
  });
  const send = (body: string): NewDirectMessage => ({
    to: author,
    from: author,
    body,
    proof: null,
    serverSigned: false,
  });
  const deliver = (delivery: Delivery): Promise<Delivered> => {
    const { port } = stoa.messaging;
    if (!(port instanceof PostgresMessaging)) throw new Error('Messages are expected to be in Redis.');
    return port.deliver(delivery, false);
  };
  const bodies = async (): Promise<string[]> =>
    (await stoa.messaging.port.messages(publicRoom(globalRoomId), { beforeMs: null, limit: 200 })).items.map(
      ({ body }) => body,
    );

  it('is posted to its room once, also if it is repeated', async () => {
    const port = writtenPort(stoa.messaging);
    const delivery = { id: randomUUID(), message: post('said once') };
    const [first, ...again] = [
      await deliver(delivery),
      ...(await Promise.all([deliver(delivery), deliver(delivery)])),
    ];
    expect(again).toEqual([first, first]);
    expect((await bodies()).filter((body) => body === 'said once')).toHaveLength(1);
    expect(await port.message(publicRoom(globalRoomId), first?.id ?? '')).toMatchObject({
      body: 'said once',
      tsMs: first?.tsMs,
    });
    expect(
      (
        await port.search({
          words: ['said', 'once'],
          roomId: null,
          owner: null,
          afterMs: 0,
          beforeMs: null,
          limit: 10,
        })
      ).messages,
    ).toHaveLength(1);
  });

  it('is sent to its inbox once', async () => {
    const port = writtenPort(stoa.messaging);
    const delivery = { id: randomUUID(), message: send('between us') };
    const first = await deliver(delivery);
    expect(await deliver(delivery)).toEqual(first);
    expect((await port.inbox(author, { beforeMs: null, limit: 10 })).items).toMatchObject([
      { id: first.id, body: 'between us' },
    ]);
  });

  it('that was made before returns its answer, also after its room was deleted', async () => {
    const port = writtenPort(stoa.messaging);
    const parent = await port.post(post('a question'));
    const delivery = { id: randomUUID(), message: post('an answer', { parentId: parent.id }) };
    const first = await deliver(delivery);
    await port.deleteMessage(globalRoomId, parent.id);
    expect(await deliver(delivery)).toEqual(first);
    await expect(deliver({ ...delivery, id: randomUUID() })).rejects.toThrow('parent message not found');
  });

  it('to an unknown recipient is refused', async () => {
    await expect(
      deliver({ id: randomUUID(), message: post('hello', { roomId: randomUUID() }) }),
    ).rejects.toThrow('room not found');
    await expect(
      deliver({ id: randomUUID(), message: { ...send('hello'), to: randomUUID() } }),
    ).rejects.toThrow('recipient not found');
  });

  it('counts its bytes for the author and is not refused for them', async () => {
    const port = writtenPort(stoa.messaging);
    for (let spent = 0; spent <= stoa.limits.messageBytesPerMinuteMax; spent += 4_000)
      await deliver({ id: randomUUID(), message: post('x'.repeat(4_000)) });
    await expect(port.post(post('one more'))).rejects.toThrow('message byte rate limit exceeded');
  });
});
