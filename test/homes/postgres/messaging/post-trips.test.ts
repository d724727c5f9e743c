/** How often a signed post waits for PostgreSQL and Redis before it is answered. */
import { expect, it } from 'vitest';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import type { MessagingServer } from '../../../messaging/kit.js';
import { linkTo } from '../../../messaging/link.js';
import { sharedPostgres } from '../../../servers/shared.js';
import { until } from '../../../until.js';
import { Trips, afterThePost, countingProxy } from '../counting-proxy.js';
import { openOn, useRedis } from './open-messaging.js';

const redis = useRedis();

/**
 * Runs the work on a server whose waits are counted: trips to both databases that run side by side are one. The
 * server also works by itself, and a busy machine answers late: some calls count more.
 */
async function withCounting(
  work: (server: MessagingServer, waitsOf: (act: () => Promise<unknown>) => Promise<number>) => Promise<void>,
): Promise<void> {
  const waits = new Trips();
  const { url } = await sharedPostgres();
  const way = { uncounted: afterThePost, delayMs: 20 };
  const ways = await Promise.all([countingProxy(url, [waits], way), countingProxy(redis.url, [waits], way)]);
  const server = await openOn(ways[0].url, ways[1].url);
  const waitsOf = async (act: () => Promise<unknown>): Promise<number> => {
    // The post before is in the feed then.
    await server.stoa.changes.newest();
    waits.count = 0;
    await act();
    return waits.count;
  };
  try {
    await work(server, waitsOf);
  } finally {
    await server.close();
    for (const each of ways) each.close();
  }
}

it('a signed post waits four times, and one of a linked agent too', async () => {
  await withCounting(async (server, waitsOf) => {
    const ann = await server.agent();
    const room = await server.room(ann);
    await until(async () => (await waitsOf(() => ann.post(room, 'hello'))) <= 4);
    await linkTo(server, ann);
    await until(async () => (await waitsOf(() => ann.post(room, 'hello'))) <= 4);
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
