import { afterAll, beforeAll, expect, it } from 'vitest';
import * as vitest from 'vitest';
import { Cluster } from 'ioredis';
import { newUlid } from '../../../../src/messaging/messages/ulid.js';
import { globalRoomId } from '../../../../src/messaging/identities/uuid.js';
import type { TestServer } from '../../../servers/child.js';
import { emptyRedis, startCluster } from '../../../servers/redis.js';
import { noteServer, sharedKeys, sharedPostgres } from '../../../servers/shared.js';
import { signedRequestTests } from '../../../../src/messaging/conformance/identities/signed-requests.js';
import { type Backend, messagingConformance } from '../../../../src/messaging/conformance/index.js';
import { limitTests } from '../../../../src/messaging/conformance/limits.js';
import { directTests } from '../../../../src/messaging/conformance/messages/direct.js';
import { liveMessageTests } from '../../../../src/messaging/conformance/messages/live-messages.js';
import { messageTests } from '../../../../src/messaging/conformance/messages/messages.js';
import { searchTests } from '../../../../src/messaging/conformance/messages/search.js';
import { privateRoomTests } from '../../../../src/messaging/conformance/rooms/private-rooms.js';
import { retentionTests } from '../../../../src/messaging/conformance/rooms/retention.js';
import { MessagingServer, roomy } from '../../../messaging/kit.js';
import { type MessagingOptions, openMessagingOn } from './open-messaging.js';

let redis: TestServer;

beforeAll(async () => {
  redis = await startCluster();
  await noteServer(redis.describe);
});
afterAll(() => redis.stop());

const open = (options?: MessagingOptions): Promise<MessagingServer> => openMessagingOn(redis.url, options);

async function found(server: MessagingServer, word: string): Promise<string[]> {
  const { results } = (await server.ask('GET', `/find?q=${word}+mine`)).json;
  return results.map(({ id }: { id: string }) => id);
}

it('on a cluster, related keys share an id in braces, and every key except stoa:store expires', async () => {
  const server = await open();
  const client = new Cluster(redis.url.split(','));
  try {
    const [ann, bob] = [await server.agent(), await server.agent()];
    const room = await server.room(ann);
    const { id } = await ann.post(room, 'words');
    await ann.post(room, 'answer', { pid: id });
    const letter = (await ann.ask('POST', `/dm/${bob.id}`, { body: { body: 'x' } })).json;
    await bob.ask('POST', '/dm/ack', { body: { ids: [letter.id] } });
    const keys = (await Promise.all(client.nodes('master').map((node) => node.keys('*')))).flat();
    const ofRoom = ['clock', 'count', 'messages', `thread:${id}`].map((part) => `room:{${room}}:${part}`);
    const ofInbox = ['acked', 'clock', 'inbox', 'pending'].map((part) => `dm:{${bob.id}}:${part}`);
    expect(keys.filter((key) => /^(room|dm):/.test(key)).toSorted()).toEqual([...ofInbox, ...ofRoom]);
    expect(keys).toEqual(
      expect.arrayContaining(['search:words:words', 'search:words:answer', `msgbytes:${ann.id}`]),
    );
    for (const key of keys) expect([key, (await client.pttl(key)) > 0]).toEqual([key, key !== 'stoa:store']);
  } finally {
    client.disconnect();
    await server.close();
  }
});

it('on a cluster, a message that could not be indexed is indexed later, by any server', async () => {
  await emptyRedis(redis.url);
  const { url } = await sharedPostgres();
  const limits = { ...roomy, searchRepairSeconds: 1 };
  const later = { ...roomy, searchRepairSeconds: 3_600 };
  const errors: string[] = [];
  const restart = async (chosen: typeof limits): Promise<MessagingServer> => {
    await servers.pop()?.close();
    const server = await MessagingServer.open({
      limits: chosen,
      postgres: url,
      secretKeys: sharedKeys,
      redis: redis.url,
      onError: (_error, about) => void errors.push(about),
    });
    servers.push(server);
    return server;
  };
  const client = new Cluster(redis.url.split(','));
  const postUnindexed = async (server: MessagingServer, word: string): Promise<string> => {
    // A key of another type makes Redis refuse the list of the word, like an unreachable node.
    await client.set(`search:words:${word}`, 'no list', 'EX', 60);
    const { id } = await (await server.agent()).post('global', `${word} of mine`);
    await client.del(`search:words:${word}`);
    return id;
  };
  const servers: MessagingServer[] = [];
  try {
    const first = await restart(limits);
    const own = await postUnindexed(first, 'stumbled');
    await expect.poll(() => found(first, 'stumbled')).toEqual([own]);
    expect(errors).toContain('adding a message to the search; it is tried again');
    const left = await postUnindexed(await restart(later), 'abandoned');
    const next = await restart(later);
    await expect.poll(() => found(next, 'abandoned')).toEqual([left]);
    await expect
      .poll(async () =>
        (await Promise.all(client.nodes('master').map((node) => node.keys('room:*:unindexed')))).flat(),
      )
      .toEqual([]);
  } finally {
    client.disconnect();
    for (const server of servers) await server.close();
  }
});

it('on a cluster, a refused post does not count against the bytes of its author', async () => {
  const server = await open();
  const client = new Cluster(redis.url.split(','));
  try {
    const ann = await server.agent();
    const room = await server.room(ann);
    await ann.post(room, 'stored');
    // What another server notes that deletes the room while this one posts.
    await client.set(`room:{${room}}:change`, 'deleted', 'EX', 60);
    const refused = await ann.ask('POST', `/room/${room}`, { body: { body: 'not stored' } });
    expect(refused.status, refused.text).toBe(404);
    expect(await client.get(`msgbytes:${ann.id}`)).toBe(String('stored'.length));
  } finally {
    client.disconnect();
    await server.close();
  }
});

it('on a cluster, a repair of the search ends although other servers keep posting', async () => {
  const client = new Cluster(redis.url.split(','));
  const list = `room:{${globalRoomId}}:unindexed`;
  let tsMs = Date.now();
  const post = () => client.zadd(list, (tsMs += 1), newUlid(tsMs));
  const postMany = () => Promise.all(Array.from({ length: 20 }, post));
  const over = new AbortController();
  let posting: Promise<unknown> | undefined;
  try {
    const { url } = await sharedPostgres();
    const server = await open({ postgres: url });
    await postMany();
    posting = (async () => {
      while (!over.signal.aborted) await postMany();
    })();
    const next = await MessagingServer.open({
      limits: roomy,
      postgres: url,
      secretKeys: sharedKeys,
      redis: redis.url,
      onError: () => undefined,
    });
    await next.close();
    await server.close();
  } finally {
    over.abort();
    await posting;
    client.disconnect();
  }
});

const backend: Backend = { name: 'PostgreSQL and a Redis cluster of three masters', open };
if (process.env['REDIS_CLUSTER'] === 'full') messagingConformance(vitest, backend);
else {
  // The parts whose keys are in Redis. `npm run test:redis-cluster` runs all parts.
  for (const part of [
    signedRequestTests,
    messageTests,
    privateRoomTests,
    searchTests,
    directTests,
    liveMessageTests,
    limitTests,
    retentionTests,
  ])
    part(vitest, backend);
}
