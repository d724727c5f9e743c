import { afterAll, beforeAll, expect, it } from 'vitest';
import { Cluster } from 'ioredis';
import type { TestServer } from '../servers/child.js';
import { startCluster } from '../servers/redis.js';
import { noteServer, sharedPostgres } from '../servers/shared.js';
import { messagingConformance } from './conformance.js';
import { Desk, roomy } from './kit.js';

let redis: TestServer;

beforeAll(async () => {
  redis = await startCluster();
  await noteServer(redis.describe);
});
afterAll(() => redis.stop());

/** Each server of the suite begins on an empty pair. */
async function open(options: Parameters<typeof Desk.open>[0] = {}): Promise<Desk> {
  const postgres = await sharedPostgres();
  const client = new Cluster(redis.url.split(','));
  await client.ping();
  await Promise.all(client.nodes('master').map((node) => node.flushall()));
  client.disconnect();
  return Desk.open({ limits: roomy, messaging: postgres.url, redis: redis.url, onError: () => undefined, ...options });
}

it('on a cluster, what must lie together has its id in braces, and every key a time to live', async () => {
  const desk = await open();
  const client = new Cluster(redis.url.split(','));
  try {
    const [ann, bob] = [await desk.agent(), await desk.agent()];
    const room = await desk.room(ann);
    const { id } = await ann.post(room, 'words');
    await ann.post(room, 'answer', { pid: id });
    const letter = (await ann.ask('POST', `/dm/${bob.id}`, { body: { body: 'x' } })).json;
    await bob.ask('POST', '/dm/ack', { body: { ids: [letter.id] } });
    const keys = (await Promise.all(client.nodes('master').map((node) => node.keys('*')))).flat();
    const ofRoom = ['clock', 'count', 'messages', `thread:${id}`].map((part) => `room:{${room}}:${part}`);
    const ofInbox = ['acked', 'clock', 'inbox', 'pending'].map((part) => `dm:{${bob.id}}:${part}`);
    expect(keys.filter((key) => /^(room|dm):/.test(key)).toSorted()).toEqual([...ofInbox, ...ofRoom]);
    expect(keys).toEqual(expect.arrayContaining(['search:words:words', 'search:words:answer', `msgbytes:${ann.id}`]));
    for (const key of keys) expect([key, (await client.pttl(key)) > 0]).toEqual([key, true]);
  } finally {
    client.disconnect();
    await desk.close();
  }
});

messagingConformance({ name: 'PostgreSQL and a Redis cluster of three masters', open });
