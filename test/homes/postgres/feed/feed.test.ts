/** The change feed in a real PostgreSQL: one order for all servers, no commit skipped or repeated. */
import { once } from 'node:events';
import postgres from 'postgres';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import type { Change } from '../../../../src/core/change.js';
import { limitsWith } from '../../../../src/core/settings/limits.js';
import type { FeedPage } from '../../../../src/feed/port.js';
import { type PostgresSql } from '../../../../src/homes/postgres/database/connection.js';
import { closePostgres, openPostgres } from '../../../../src/homes/postgres/database/pool.js';
import { PostgresFeed, type PostgresFeedOptions } from '../../../../src/homes/postgres/feed/feed.js';
import { commitsAfter } from '../../../../src/homes/postgres/feed/tail.js';
import { emptyPostgres } from '../../../servers/shared.js';
import { eventually } from '../../../until.js';

let url: string;
let admin: postgres.Sql;
let feeds: { feed: PostgresFeed; sql: PostgresSql }[] = [];

const limits = limitsWith({});

beforeEach(async () => {
  ({ url } = await emptyPostgres());
  admin = postgres(url, { max: 20, onnotice: () => undefined });
});

afterEach(async () => {
  for (const { feed, sql } of feeds) {
    await feed.close();
    await closePostgres(sql, 1);
  }
  feeds = [];
  await admin.end();
});

async function server(
  options = limits,
  onError: PostgresFeedOptions['onError'] = (error, about) =>
    expect.unreachable(`${about}: ${String(error)}`),
): Promise<PostgresFeed> {
  const sql = await openPostgres(new URL(url), { limits: options });
  const feed = new PostgresFeed({ sql, limits: options, onError });
  feeds.push({ feed, sql });
  await feed.open();
  return feed;
}

function change(id: string, version = 1): Change {
  return { domain: 'registry', kind: 'agent.updated', id, user: 'ada', version };
}

/** Like a write of a server: the feed row is the last statement of the transaction. */
async function write(sql: postgres.Sql | postgres.TransactionSql, ...changes: Change[]): Promise<void> {
  await sql`INSERT INTO feed.incoming (changes) VALUES (${JSON.stringify(changes)}::text::json)`;
}

function idsOf({ commits }: FeedPage): string[] {
  return commits.flatMap(({ changes }) => changes.map(({ id }) => id));
}

async function collect(feed: PostgresFeed, count: number, since?: string): Promise<string[]> {
  const stop = new AbortController();
  const seen: string[] = [];
  for await (const page of feed.follow({ since, signal: stop.signal, idleMs: 20_000 })) {
    seen.push(...page.commits.flatMap((commit) => commit.changes.map(({ id }) => `${commit.seq} ${id}`)));
    if (seen.length >= count) break;
  }
  stop.abort();
  return seen;
}

describe('reading', () => {
  test('pages contain whole commits, in order, with positions for the next page', async () => {
    const feed = await server();
    const start = await feed.newest();
    await write(admin, change('a'), change('b'));
    await write(admin, change('c'));
    await feed.newest();
    const first = await feed.read({ since: start, limit: 1 });
    expect(idsOf(first)).toEqual(['a', 'b']);
    expect(first.more).toBe(true);
    const second = await feed.read({ since: first.position });
    expect(idsOf(second)).toEqual(['c']);
    expect(second.more).toBe(false);
    expect(feed.distance(start, second.position)).toBe(2);
    expect(idsOf(await feed.read({ since: start, until: first.position }))).toEqual(['a', 'b']);
  });

  test('large commits are read a few at a time, also by a reader that waits for them', async () => {
    const feed = await server();
    const since = await feed.newest();
    const waiting = collect(feed, 60 * 1_000, since);
    const expected: string[] = [];
    for (let index = 0; index < 60; index += 1) {
      const changes = Array.from({ length: 1_000 }, (_, at) => change(`${index} ${at}`));
      await write(admin, ...changes);
      expected.push(...changes.map(({ id }) => `${index + 1} ${id}`));
    }
    expect(await waiting).toEqual(expected);
    const [{ sql } = expect.unreachable('no server')] = feeds;
    const page = await commitsAfter(sql, 0);
    expect(page.length).toBeLessThan(30);
    expect((await commitsAfter(sql, page.length))[0]?.seq).toBe(page.length + 1);
    expect(await collect(feed, 60 * 1_000, since)).toEqual(expected);
  });

  test('"0" is the oldest kept position', async () => {
    const feed = await server();
    expect(idsOf(await feed.read({ since: '0' }))).toEqual(idsOf(await feed.read({})));
  });

  test('a text that is not a position is refused', async () => {
    const feed = await server();
    for (const since of ['x', '-1', '1-', '1-99999999999999999', '0123456789ab-', '0123456789AB-1'])
      await expect(feed.read({ since })).rejects.toMatchObject({ code: 'invalid_cursor' });
  });

  test('a position after the newest one is refused with resync', async () => {
    const feed = await server();
    const since = (await feed.newest()).replace(/-.*/, '-999999999');
    await expect(feed.read({ since })).rejects.toMatchObject({ code: 'resync' });
  });

  test('a position of another Stoa, in PostgreSQL or in a directory, is refused with resync', async () => {
    const here = await server();
    await write(admin, change('here'));
    const newest = await here.newest();
    const elsewhere = new URL((await emptyPostgres()).url);
    const sql = await openPostgres(elsewhere, { limits });
    const other = new PostgresFeed({ sql, limits, onError: () => undefined });
    feeds.push({ feed: other, sql });
    await other.open();
    const position = await other.newest();
    for (const since of [newest, newest.replace(/-.*/, '-0'), '0123456789ab-1', '0123456789ab-1.0'])
      await expect(other.read({ since })).rejects.toMatchObject({ code: 'resync', details: { position } });
  });
});

describe('following', () => {
  test('two servers show the same commits with the same numbers', async () => {
    const [a, b] = [await server(), await server()];
    const since = await a.newest();
    const watching = [collect(a, 200, since), collect(b, 200, since)];
    await Promise.all(Array.from({ length: 200 }, (_, at) => write(admin, change(`n${at}`))));
    a.committed();
    const [ofA, ofB] = await Promise.all(watching);
    expect(ofA).toHaveLength(200);
    expect(ofB).toEqual(ofA);
  });

  test('a reader that changes servers misses nothing and sees nothing twice', async () => {
    const [a, b] = [await server(), await server()];
    const since = await a.newest();
    await write(admin, change('one'));
    await write(admin, change('two'));
    await a.newest();
    const page = await a.read({ since, limit: 1 });
    await write(admin, change('three'));
    expect((await collect(b, 2, page.position)).map((text) => text.split(' ')[1])).toEqual(['two', 'three']);
  });

  test('a row without a notification arrives within a second', async () => {
    const feed = await server();
    const since = await feed.newest();
    const watching = collect(feed, 1, since);
    const startedMs = performance.now();
    await write(admin, change('silent'));
    expect(await watching).toHaveLength(1);
    expect(performance.now() - startedMs).toBeLessThan(3_000);
  });

  test.each(['its signal', 'the server'])(
    'a reader that %s ends during a read does not wait',
    async (end) => {
      const feed = await server();
      const since = await feed.newest();
      const stop = new AbortController();
      const next = feed.follow({ since, signal: stop.signal, idleMs: 3_600_000 }).next();
      // The read has begun, and its answer from the database cannot be here yet.
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
      if (end === 'its signal') stop.abort();
      else await feed.close();
      expect(await next).toEqual({ done: true, value: undefined });
    },
  );

  test('each waiting reader gets every commit after its own position', async () => {
    const feed = await server();
    const since = await feed.newest();
    const early = collect(feed, 3, since);
    await eventually(async () => expect(await feed.newest()).toBe(since));
    await write(admin, change('x'));
    const middle = await feed.newest();
    const late = collect(feed, 2, middle);
    await write(admin, change('y'));
    await write(admin, change('z'));
    expect((await early).map((text) => text.split(' ')[1])).toEqual(['x', 'y', 'z']);
    expect((await late).map((text) => text.split(' ')[1])).toEqual(['y', 'z']);
  });
});

describe('order', () => {
  test('two writes to one row appear in the feed in the order of their commits', async () => {
    const feed = await server();
    await admin`CREATE TABLE IF NOT EXISTS feed_counter (id int PRIMARY KEY, version int NOT NULL)`;
    await admin`INSERT INTO feed_counter VALUES (1, 0) ON CONFLICT (id) DO UPDATE SET version = 0`;
    const since = await feed.newest();
    await Promise.all(
      Array.from({ length: 60 }, (_, at) =>
        admin.begin(async (tx) => {
          await tx`SELECT pg_sleep(${Math.random() / 50})`;
          const [row] = await tx<{ version: number }[]>`
            UPDATE feed_counter SET version = version + 1 WHERE id = 1 RETURNING version`;
          await write(tx, change('counter', row?.version ?? 0));
          if (at % 3 === 0) await tx`SELECT pg_sleep(${Math.random() / 50})`;
          feed.committed();
        }),
      ),
    );
    await feed.newest();
    const { commits } = await feed.read({ since });
    expect(commits.map(({ changes }) => changes[0]?.version)).toEqual(
      Array.from({ length: 60 }, (_, at) => at + 1),
    );
  });

  test('an open transaction does not block others, and is not skipped', async () => {
    const feed = await server();
    const since = await feed.newest();
    const end = new AbortController();
    const ended = once(end.signal, 'abort');
    const written = new AbortController();
    const isWritten = once(written.signal, 'abort');
    const open = admin.begin(async (tx) => {
      await write(tx, change('slow'));
      written.abort();
      await ended;
    });
    await isWritten;
    await write(admin, change('quick'));
    const between = await feed.newest();
    expect(idsOf(await feed.read({ since }))).toEqual(['quick']);
    end.abort();
    await open;
    await feed.newest();
    expect(idsOf(await feed.read({ since: between }))).toEqual(['slow']);
  });

  test('servers number one after the other, in the order of the writes and not of their rows', async () => {
    const feed = await server();
    await feed.close();
    const waits = (): Promise<readonly unknown[]> =>
      admin`SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory'`;
    for (const order of [20, 10, 30])
      await admin`INSERT INTO feed.incoming (write_order, changes) OVERRIDING SYSTEM VALUE
        VALUES (${order}, ${JSON.stringify([change(`written ${order}`)])}::text::json)`;
    const { numbered } = await admin.begin(async (tx) => {
      await tx`SELECT feed.number_commits(2)`;
      const other = admin`SELECT feed.number_commits(2)`.execute();
      await eventually(async () => expect(await waits()).toHaveLength(1));
      return { numbered: other };
    });
    await numbered;
    const [{ sql } = expect.unreachable('no server')] = feeds;
    const commits = await commitsAfter(sql, 0);
    expect(commits.map(({ seq, changes }) => `${seq} ${changes[0]?.id}`)).toEqual([
      '1 written 10',
      '2 written 20',
      '3 written 30',
    ]);
  });

  test('a write that is rolled back leaves no commit and no gap', async () => {
    const feed = await server();
    const since = await feed.newest();
    await admin
      .begin(async (tx) => {
        await write(tx, change('undone'));
        throw new Error('rolled back');
      })
      .catch(() => undefined);
    await write(admin, change('kept'));
    const newest = await feed.newest();
    expect(idsOf(await feed.read({ since }))).toEqual(['kept']);
    expect(feed.distance(since, newest)).toBe(1);
  });
});

describe('a position that is no longer valid', () => {
  test('is refused once its commits were trimmed', async () => {
    const feed = await server();
    const since = await feed.newest();
    await write(admin, change('old'));
    await write(admin, change('new'));
    const newest = await feed.newest();
    await admin`SELECT feed.trim_commits(
      (extract(epoch FROM clock_timestamp()) * 1000 + 60000)::bigint, 0, 100000)`;
    await expect(feed.read({ since })).rejects.toMatchObject({
      code: 'resync',
      details: { position: newest },
    });
    expect((await feed.read({ since: newest })).commits).toEqual([]);
  });

  test('is refused after a restore, on every server', async () => {
    const feed = await server();
    const since = await feed.newest();
    // The database of a restored copy is another one. Changing the stored one has the same effect.
    await admin`UPDATE feed.extent SET database = 'before the restore'`;
    const [a, b] = [await server(), await server()];
    for (const restored of [feed, a, b])
      await expect(restored.read({ since })).rejects.toMatchObject({ code: 'resync' });
    expect(await a.newest()).toBe(await b.newest());
  });

  test('meets one epoch, also if two servers notice the restore at once', async () => {
    await (await server()).close();
    await admin`UPDATE feed.extent SET database = 'before the restore'`;
    const { asked } = await admin.begin(async (tx) => {
      await tx`SELECT FROM feed.extent FOR UPDATE`;
      const both = ['one', 'other'].map(() => admin`SELECT feed.current_epoch() AS epoch`.execute());
      await eventually(async () =>
        expect(
          await admin`SELECT FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        ).toHaveLength(2),
      );
      return { asked: both };
    });
    const [one, other] = await Promise.all(asked);
    expect(other?.[0]?.['epoch']).toBe(one?.[0]?.['epoch']);
  });

  test('ends its follower after a restore to fewer commits, and the server goes on', async () => {
    const feed = await server();
    for (const id of ['one', 'two', 'lost']) await write(admin, change(id));
    const since = await feed.newest();
    const following = collect(feed, 1, since);
    await admin.begin(async (tx) => {
      await tx`DELETE FROM feed.commits WHERE seq = 3`;
      await tx`UPDATE feed.extent SET last_seq = 2, database = 'before the restore'`;
    });
    await expect(following).rejects.toMatchObject({ code: 'resync' });
    const restored = await feed.newest();
    expect(restored.split('-')[1]).toBe('2');
    const again = collect(feed, 1, restored);
    await write(admin, change('after'));
    expect(await again).toEqual(['3 after']);
  });
});

test('the oldest commits are trimmed by size, and the stored size stays correct', async () => {
  const feed = await server();
  for (let at = 0; at < 20; at += 1) await write(admin, change(`sized ${at}`));
  await feed.newest();
  const [before] = await admin<{ size_bytes: string }[]>`SELECT size_bytes FROM feed.extent`;
  const half = Math.floor(Number(before?.size_bytes) / 2);
  await admin`SELECT feed.trim_commits(0, ${half}, 100000)`;
  const [after] = await admin<{ size: string; counted: string; first: string; lowest: string }[]>`
    SELECT e.size_bytes AS size, (SELECT sum(size_bytes) FROM feed.commits) AS counted,
      e.first_seq AS first, (SELECT min(seq) FROM feed.commits) AS lowest FROM feed.extent e`;
  expect(after?.size).toBe(after?.counted);
  expect(after?.first).toBe(after?.lowest);
  expect(Number(after?.size)).toBeLessThanOrEqual(Number(before?.size_bytes) / 2 + 200);
});

test('a closed feed numbers nothing more, and reports no error', async () => {
  const errors: unknown[] = [];
  const feed = await server(limits, (error) => void errors.push(error));
  await feed.close();
  await closePostgres((feeds.pop() as (typeof feeds)[number]).sql, 1);
  feed.committed();
  await expect(feed.newest()).rejects.toMatchObject({ code: 'backend_unavailable' });
  expect(errors).toEqual([]);
});
