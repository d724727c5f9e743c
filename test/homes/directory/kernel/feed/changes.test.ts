import { afterAll, describe, expect, it } from 'vitest';
import type { FeedPage } from '../../../../../src/feed/port.js';
import { ChangeFeed } from '../../../../../src/homes/directory/kernel/feed/changes.js';
import type { Store } from '../../../../../src/homes/directory/kernel/store.js';
import { trimLogs } from '../../../../../src/homes/directory/kernel/feed/trim.js';
import { change, openStore, removeDirectories, turns } from '../open-store.js';

afterAll(removeDirectories);

const epoch = '0123456789ab';

function at(...numbers: number[]): string {
  return `${epoch}-${numbers.join('.')}`;
}

function announce(store: Store, ...ids: string[]): Promise<void> {
  return store.transact((tx) => {
    for (const id of ids) tx.change(change(id));
  });
}

function idsIn(...pages: FeedPage[]): string[] {
  return pages.flatMap(({ commits }) => commits.flatMap(({ changes }) => changes.map(({ id }) => id)));
}

describe('a page of the feed', () => {
  it('never splits a commit, however small the limit', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    await announce(store, 'a', 'b', 'c');
    await announce(store, 'd');
    const first = feed.read({ limit: 1 });
    expect([idsIn(first), first.more]).toEqual([['a', 'b', 'c'], true]);
    const second = feed.read({ limit: 1, since: first.position });
    expect([idsIn(second), second.more]).toEqual([['d'], false]);
    expect(second.position).toBe(feed.newest());
  });

  it('can be continued after each commit in it, also within a group', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    await Promise.all(['a', 'b', 'c'].map((id) => announce(store, id)));
    const [first] = feed.read().commits;
    expect(idsIn(feed.read({ since: first?.position }))).toEqual(['b', 'c']);
  });

  it('shows the same from memory as from disk', async () => {
    const { store, directory } = await openStore({ engine: 'lmdb' });
    const feed = new ChangeFeed([store], epoch);
    for (let round = 0; round < 10; round += 1)
      await Promise.all(['a', 'b'].map((id) => announce(store, `${id}${round}`)));
    const live = feed.read();
    await store.close();
    const reopened = await openStore({ engine: 'lmdb', directory });
    expect(new ChangeFeed([reopened.store], epoch).read()).toEqual(live);
    await reopened.store.close();
  });

  it('contains its end position although nothing matched', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    await announce(store, 'a', 'b');
    const quiet = feed.read({ accept: () => false });
    expect(quiet).toEqual({ commits: [], position: feed.newest(), more: false });
    const some = feed.read({ accept: ({ id }) => id === 'b' });
    expect(idsIn(some)).toEqual(['b']);
  });

  it('reads a bounded number of commits for a narrow filter, and says that there are more', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    await Promise.all(Array.from({ length: 12_000 }, (_, index) => announce(store, String(index))));
    let page = feed.read({ accept: ({ id }) => id === '11999' });
    expect([page.commits.length, page.more]).toEqual([0, true]);
    let pages = 1;
    for (; page.more; pages += 1)
      page = feed.read({ since: page.position, accept: ({ id }) => id === '11999' });
    expect(idsIn(page)).toEqual(['11999']);
    expect(pages).toBeLessThan(10);
  });

  it('of an empty feed is empty', async () => {
    const { store } = await openStore();
    expect(new ChangeFeed([store], epoch).read()).toEqual({ commits: [], position: at(0), more: false });
  });
});

describe('a position', () => {
  it('that is too old, or in the future, is a resync', async () => {
    const { store } = await openStore({ limits: { feedBytesMax: 1 } });
    const feed = new ChangeFeed([store], epoch);
    for (const id of ['a', 'b', 'c']) await announce(store, id);
    await trimLogs(store);
    const late = new ChangeFeed([store], epoch);
    expect(() => late.read({ since: at(0) })).toThrow(
      expect.objectContaining({ code: 'resync', details: { position: at(3) } }),
    );
    expect(idsIn(late.read({ since: at(2) }))).toEqual(['c']);
    expect(idsIn(late.read())).toEqual(['c']);
    expect(() => late.read({ since: at(4) })).toThrow(expect.objectContaining({ code: 'resync' }));
    expect(idsIn(feed.read({ since: at(3) }))).toEqual([]);
  });

  it('of another store is a resync, although this one has that number', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    for (const id of ['a', 'b', 'c']) await announce(store, id);
    const foreign = new ChangeFeed([store], 'fedcba987654').read({ limit: 1 }).position;
    expect(() => feed.read({ since: foreign })).toThrow(
      expect.objectContaining({ code: 'resync', details: { position: at(3) } }),
    );
    expect(() => feed.read({ until: foreign })).toThrow(expect.objectContaining({ code: 'resync' }));
    const pages = feed.follow({ since: foreign, signal: new AbortController().signal, idleMs: 1000 });
    await expect(pages.next()).rejects.toMatchObject({ code: 'resync' });
  });

  it('0 is the beginning of what is kept', async () => {
    const { store } = await openStore({ limits: { feedBytesMax: 1 } });
    for (const id of ['a', 'b', 'c']) await announce(store, id);
    await trimLogs(store);
    expect(idsIn(new ChangeFeed([store], epoch).read({ since: '0' }))).toEqual(['c']);
  });

  it.each([
    '',
    'x',
    '1',
    '-1',
    `${epoch}-`,
    `${epoch}-1.`,
    ` ${epoch}-1`,
    `${epoch}-99999999999999999`,
    `${epoch}-1\n`,
  ])('that is not one (%j) is refused', async (since) => {
    const { store } = await openStore();
    expect(() => new ChangeFeed([store], epoch).read({ since })).toThrow(
      expect.objectContaining({ code: 'invalid_cursor' }),
    );
  });
});

describe('following', () => {
  it('has no gap and no repeat under load, from the log to live commits', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    const total = 3000;
    await Promise.all(Array.from({ length: 500 }, (_, index) => announce(store, String(index))));
    const stop = new AbortController();
    const readers = [1, 7, 1000].map(async (limit) => {
      const seen: number[] = [];
      for await (const page of feed.follow({ since: '0', signal: stop.signal, idleMs: 60_000, limit })) {
        seen.push(...page.commits.map(({ seq }) => seq));
        // A reader that is busy while commits come.
        if (seen.length % 13 === 0) await turns(2);
        if (seen.length >= total) return seen;
      }
      return seen;
    });
    const writers = Array.from({ length: 64 }, async (_, writer) => {
      for (let next = 500 + writer; next < total; next += 64) await announce(store, String(next));
    });
    await Promise.all(writers);
    for (const seen of await Promise.all(readers))
      expect(seen).toEqual(Array.from({ length: total }, (_, index) => index + 1));
    stop.abort();
  });

  it('gets commits that were made while the reader was busy', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    const stop = new AbortController();
    const pages = feed.follow({ signal: stop.signal, idleMs: 60_000 });
    await announce(store, 'a');
    expect(idsIn((await pages.next()).value as FeedPage)).toEqual(['a']);
    await announce(store, 'b');
    expect(idsIn((await pages.next()).value as FeedPage)).toEqual(['b']);
    const waiting = pages.next();
    stop.abort();
    expect((await waiting).done).toBe(true);
  });

  it('without a position starts at the call', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    await announce(store, 'before');
    const pages = feed.follow({ signal: new AbortController().signal, idleMs: 60_000 });
    await announce(store, 'after');
    expect(idsIn((await pages.next()).value as FeedPage)).toEqual(['after']);
  });

  it('sends the position while nothing is accepted, also when others never stop writing', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    const stop = new AbortController();
    const writer = (async () => {
      while (!stop.signal.aborted) await announce(store, 'other');
    })();
    const positions: number[] = [];
    for await (const page of feed.follow({
      since: '0',
      signal: stop.signal,
      idleMs: 10,
      accept: () => false,
    })) {
      expect(page.commits).toEqual([]);
      positions.push(Number(page.position.split('-')[1]));
      // A busy disk may let a pause pass without a single write.
      if (new Set(positions).size === 3) stop.abort();
    }
    await writer;
    expect(positions).toEqual(positions.toSorted((a, b) => a - b));
  });

  it('moves the position of a reader that accepts nothing, so that the log can be trimmed', async () => {
    const { store } = await openStore({ limits: { feedBytesMax: 1 } });
    const feed = new ChangeFeed([store], epoch);
    const next = feed
      .follow({ signal: new AbortController().signal, idleMs: 60_000, accept: ({ id }) => id === 'mine' })
      .next();
    await announce(store, 'other');
    // More than is kept in memory, so that what came before is on disk alone.
    await announce(store, ...Array.from({ length: 20_001 }, () => 'other'));
    await trimLogs(store);
    expect(() => feed.read({ since: at(0) })).toThrow(expect.objectContaining({ code: 'resync' }));
    await announce(store, 'mine');
    expect(idsIn((await next).value as FeedPage)).toEqual(['mine']);
  });

  it('ends at once when the reader has left, also between two pages', async () => {
    const { store } = await openStore();
    const feed = new ChangeFeed([store], epoch);
    const stop = new AbortController();
    await announce(store, 'a');
    const pages = feed.follow({ since: '0', signal: stop.signal, idleMs: 60_000 });
    await pages.next();
    stop.abort();
    expect((await pages.next()).done).toBe(true);
  });

  it('sends resync to a reader that fell behind the kept part', async () => {
    const { store } = await openStore({ limits: { feedBytesMax: 1 } });
    await announce(store, 'a');
    await announce(store, 'b');
    await trimLogs(store);
    const pages = new ChangeFeed([store], epoch).follow({
      since: at(0),
      signal: new AbortController().signal,
      idleMs: 1000,
    });
    await expect(pages.next()).rejects.toMatchObject({ code: 'resync' });
  });
});

describe('several shards', () => {
  it('are merged by time, keep the order of each, and resume anywhere', async () => {
    let nowMs = 1000;
    const clock = () => (nowMs += 1);
    const stores = await Promise.all(
      Array.from({ length: 3 }, async () => (await openStore({ clock })).store),
    );
    const feed = new ChangeFeed(stores, epoch);
    const expected: string[] = [];
    for (let round = 0; round < 30; round += 1) {
      const shard = (round * 7) % 3;
      await announce(stores[shard] as Store, `${shard}.${round}`);
      expected.push(`${shard}.${round}`);
    }
    const whole = feed.read();
    expect(idsIn(whole)).toEqual(expected);
    for (const [index, { position }] of whole.commits.entries())
      expect(idsIn(feed.read({ since: position }))).toEqual(expected.slice(index + 1));
    expect(feed.newest()).toBe(at(10, 10, 10));
    // A position of a directory with one shard, and one of PostgreSQL.
    for (const since of [at(10), 'fedcba987654-10'])
      expect(() => feed.read({ since })).toThrow(expect.objectContaining({ code: 'resync' }));
    expect(() => feed.read({ since: '1.x' })).toThrow(expect.objectContaining({ code: 'invalid_cursor' }));
    expect(idsIn(feed.read({ since: '0' }))).toEqual(expected);
  });
});
