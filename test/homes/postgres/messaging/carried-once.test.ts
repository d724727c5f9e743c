/** A server ends between Redis and the feed: the next one carries the note of a post, once. */
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Change } from '../../../../src/core/change.js';
import { feedOutboxKey } from '../../../../src/homes/postgres/messaging/redis/keys.js';
import type { MessagingServer } from '../../../messaging/kit.js';
import type { TestServer } from '../../../servers/child.js';
import { startGate } from '../../../servers/gate.js';
import { start as startRedis, startCluster } from '../../../servers/redis.js';
import { noteServer, sharedPostgres } from '../../../servers/shared.js';
import { eventually, until } from '../../../until.js';
import { at, open } from './two-servers.js';

async function postedSince({ stoa }: MessagingServer, since: string): Promise<Change[]> {
  const { commits } = await stoa.home.feed.read({ since });
  return commits.flatMap(({ changes }) => changes.filter(({ kind }) => kind === 'message.posted'));
}

describe.each([
  ['one Redis', startRedis],
  ['a Redis Cluster', startCluster],
] as const)('on %s', (_name, start) => {
  let redis: TestServer;
  beforeAll(async () => {
    redis = await start();
    await noteServer(redis.describe);
  });
  afterAll(() => redis.stop());

  it('the feed has the message once, though the first server never writes it', async () => {
    const { url } = await sharedPostgres();
    let isHolding = false;
    let release: (() => void) | undefined;
    // The first server stores the message in Redis. Its statement for the feed never arrives.
    const gate = await startGate(url, {
      hold: (sent) => {
        if (!sent.includes('feed.added_entries') || !isArmed) return undefined;
        isHolding = true;
        return new Promise((resolve) => (release = resolve));
      },
    });
    let isArmed = false;
    const [ended, next] = [await open(gate.url, redis.url), await open(url, redis.url)];
    try {
      const ann = await ended.agent();
      const room = await ended.room(ann);
      const since = await next.stoa.changes.newest();
      isArmed = true;
      const posting = ann.ask('POST', `/room/${room}`, { body: { body: 'carried' } });
      await until(() => isHolding);
      await gate.close();
      await posting;
      const posted = () => postedSince(next, since);
      await eventually(async () => expect(await posted()).toHaveLength(1));
      const { messages } = (await next.ask('GET', `/room/${room}`)).json;
      expect(messages).toMatchObject([{ body: 'carried' }]);
      // A later post is carried after it: the note was removed.
      await at(next, ann).post(room, 'later');
      await eventually(async () => expect(await posted()).toHaveLength(2));
      expect(new Set((await posted()).map(({ id }) => id)).size).toBe(2);
    } finally {
      release?.();
      await next.close();
      await ended.close();
      await gate.close();
    }
  });
});

it('the feed has the message once, though the first server never removes its note', async () => {
  const redis = await startRedis();
  const { url } = await sharedPostgres();
  let isArmed = false;
  let isHolding = false;
  let release: (() => void) | undefined;
  // The first server has written the row of the feed. What it sends to Redis afterwards never arrives.
  const gate = await startGate(redis.url, {
    hold: (sent) => {
      if (!isArmed || !sent.includes('lrem')) return undefined;
      isHolding = true;
      return new Promise((resolve) => (release = resolve));
    },
  });
  const [ended, next] = [await open(url, gate.url), await open(url, redis.url)];
  const client = new Redis(redis.url);
  try {
    const ann = await ended.agent();
    const room = await ended.room(ann);
    const since = await next.stoa.changes.newest();
    isArmed = true;
    expect((await ann.ask('POST', `/room/${room}`, { body: { body: 'written' } })).status).toBe(201);
    await until(() => isHolding);
    const notes = () => client.llen(feedOutboxKey);
    await gate.close();
    await eventually(async () => expect(await notes()).toBe(0));
    await at(next, ann).post(room, 'later');
    await eventually(async () => expect(await postedSince(next, since)).toHaveLength(2));
    const { messages } = (await next.ask('GET', `/room/${room}`)).json as { messages: { id: string }[] };
    const [later, written] = messages.map(({ id }) => `${room}/${id}`);
    expect((await postedSince(next, since)).map(({ id }) => id)).toEqual([written, later]);
  } finally {
    client.disconnect();
    release?.();
    await next.close();
    await ended.close();
    await gate.close();
    await redis.stop();
  }
});
