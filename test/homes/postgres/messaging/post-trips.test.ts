/** How often a signed post waits for PostgreSQL and Redis before it is answered. */
import { expect, it } from 'vitest';
import { closePostgres, openPostgres, query } from '../../../../src/homes/postgres/database/connection.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import type { Agent, MessagingServer } from '../../../messaging/kit.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { until } from '../../../until.js';
import { Trips, afterThePost, countingProxy } from '../counting-proxy.js';
import { openOn, useRedis } from './open-messaging.js';

const redis = useRedis();

interface Counted {
  readonly postgres: number;
  readonly redis: number;
  /** Trips that run side by side are one wait. */
  readonly waits: number;
}

/** Runs the work on a server whose trips are counted. `countedIn` gives the fewest of several calls: the server also works by itself. */
async function withCounting(
  work: (
    server: MessagingServer,
    countedIn: (act: () => Promise<unknown>) => Promise<Counted>,
  ) => Promise<void>,
): Promise<void> {
  const [ofPostgres, ofRedis, waits] = [new Trips(), new Trips(), new Trips()];
  const { url } = await sharedPostgres();
  const [postgresWay, redisWay] = await Promise.all([
    countingProxy(url, [ofPostgres, waits], afterThePost),
    countingProxy(redis.url, [ofRedis, waits], afterThePost),
  ]);
  const server = await openOn(postgresWay.url, redisWay.url);
  const countedIn = async (act: () => Promise<unknown>): Promise<Counted> => {
    const fewest = { postgres: Infinity, redis: Infinity, waits: Infinity };
    for (let call = 0; call < 20; call += 1) {
      // The post before is in the feed then.
      await server.stoa.changes.newest();
      for (const counter of [ofPostgres, ofRedis, waits]) counter.count = 0;
      await act();
      fewest.postgres = Math.min(fewest.postgres, ofPostgres.count);
      fewest.redis = Math.min(fewest.redis, ofRedis.count);
      fewest.waits = Math.min(fewest.waits, waits.count);
    }
    return fewest;
  };
  try {
    await work(server, countedIn);
  } finally {
    await server.close();
    postgresWay.close();
    redisWay.close();
  }
}

/** Links the identity to an agent of a user. */
async function linkTo(server: MessagingServer, identity: Agent): Promise<void> {
  const { stoa } = server;
  const { agent_id } = await stoa.registry.createAgent(operatorCaller('ada'), { name: 'scout' });
  const { token } = await stoa.identity.createToken(operatorCaller(), 'ada', {}, null);
  const { status } = await server.ask('PUT', `/v1/identities/${identity.id}/link`, {
    body: { agent_id, consent: identity.consent(agent_id) },
    headers: { authorization: `Bearer ${token}` },
  });
  expect(status).toBe(200);
}

it('a signed post waits four times, and one of a linked agent too', async () => {
  await withCounting(async (server, countedIn) => {
    const ann = await server.agent();
    const room = await server.room(ann);
    const post = (author: Agent) => countedIn(() => author.post(room, 'hello'));
    expect(await post(ann)).toEqual({ postgres: 2, redis: 4, waits: 4 });
    await linkTo(server, ann);
    // The link is looked up beside the room.
    expect(await post(ann)).toEqual({ postgres: 2, redis: 4, waits: 4 });
  });
});

it('a post is answered while the feed cannot be written, and gets into it afterwards', async () => {
  const { url } = await sharedPostgres();
  const server = await openOn(url, redis.url);
  const other = await openPostgres(new URL(url), { limits: limitsWith(), connectionsMax: 1 });
  try {
    const ann = await server.agent();
    const room = await server.room(ann);
    const since = await server.stoa.changes.newest();
    const posted = await other.begin(async (sql) => {
      await query(sql, 'LOCK TABLE feed.added_entries IN ACCESS EXCLUSIVE MODE');
      return ann.post(room, 'hello');
    });
    await until(async () => {
      const { commits } = await server.stoa.home.feed.read({ since });
      return commits.some(({ changes }) => changes.some(({ id }) => id.includes(posted.id)));
    });
    const { json } = await server.ask('GET', '/channels');
    expect(json.channels.find(({ id }: { id: string }) => id === room)).toMatchObject({ message_count: 1 });
  } finally {
    await closePostgres(other, 1);
    await server.close();
  }
});
