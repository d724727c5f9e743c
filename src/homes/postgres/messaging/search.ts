/** Search over the words in Redis: the shortest list is walked from the newest, the others are asked about each page of it. */
import type { Limits } from '../../../core/settings/limits.js';
import type { Message } from '../../../messaging/model.js';
import type { SearchQuery, SearchResult } from '../../../messaging/port.js';
import type { RedisMessages } from './messages.js';
import { type Entry, entriesOf } from './places.js';
import { type RedisConnection, type RedisKeys, withRedis } from './redis.js';

const pageSize = 200;

export interface RedisSearchOptions {
  redis: RedisConnection;
  keys: RedisKeys;
  limits: Limits;
  nowMs: () => number;
  messages: RedisMessages;
}

/** No `search:temp` key is needed, and on a cluster the lists may lie anywhere. */
export async function searchRedis(
  { redis, keys, limits, nowMs, messages }: RedisSearchOptions,
  query: SearchQuery,
): Promise<SearchResult> {
  const oldestMs = Math.max(nowMs() - limits.messageRetentionSeconds * 1000, query.afterMs);
  const sizes = await withRedis(() =>
    Promise.all(query.words.map((word) => redis.commands.zcard(keys.word(word)))),
  );
  if (sizes.includes(0)) return { messages: [], restBeforeMs: null };
  const [shortest = '', ...others] = query.words.toSorted(
    (a, b) => (sizes[query.words.indexOf(a)] ?? 0) - (sizes[query.words.indexOf(b)] ?? 0),
  );
  const { beforeMs, last = null } = query;
  // In a list, what has the same time stands in the order of its text.
  const lastShown = last === null ? '' : `${last.roomId}:${last.messageId}`;
  let newest = beforeMs === null ? '+inf' : last === null ? `(${beforeMs}` : String(beforeMs);
  const found: Message[] = [];
  let reachedMs = 0;
  /** Those of the last page that the next one begins with again: what is posted meanwhile moves places, not times. */
  let seen = new Set<string>();
  // A step is a look at one message in one list, as it is in the embedded store.
  for (let steps = 0; steps < limits.searchStepsMax; steps += pageSize * query.words.length) {
    const wantedMembers = pageSize + seen.size;
    const page = entriesOf(
      await withRedis(() =>
        redis.commands.zrevrangebyscore(
          keys.word(shortest),
          newest,
          `(${oldestMs}`,
          'WITHSCORES',
          'LIMIT',
          0,
          wantedMembers,
        ),
      ),
    );
    const fresh = page.filter(
      ({ member, tsMs }) =>
        !seen.has(member) &&
        (last === null || tsMs !== beforeMs || member < lastShown) &&
        (query.roomId === null || member.startsWith(`${query.roomId}:`)),
    );
    const matching = await inAll(
      redis,
      others.map((word) => keys.word(word)),
      fresh,
    );
    const wanted = matching.map(({ member, tsMs }) => ({
      roomId: member.slice(0, 36),
      messageId: member.slice(37),
      tsMs,
    }));
    // Only as many as are still missing are fetched; those that are gone make room for the next.
    for (let at = 0; at < wanted.length && found.length < query.limit; at += query.limit) {
      found.push(
        ...(await messages.findMany(wanted.slice(at, at + query.limit))).slice(0, query.limit - found.length),
      );
    }
    if (found.length >= query.limit || page.length < wantedMembers)
      return { messages: found, restBeforeMs: null };
    reachedMs = page.at(-1)?.tsMs ?? 0;
    newest = String(reachedMs);
    seen = new Set(page.filter(({ tsMs }) => tsMs === reachedMs).map(({ member }) => member));
  }
  // It goes on at a whole millisecond, with what it has found of that one left to the next time.
  return { messages: found.filter(({ tsMs }) => tsMs > reachedMs), restBeforeMs: reachedMs + 1 };
}

async function inAll(
  redis: RedisConnection,
  keys: readonly string[],
  entries: readonly Entry[],
): Promise<readonly Entry[]> {
  if (entries.length === 0 || keys.length === 0) return entries;
  const scores = await withRedis(() =>
    Promise.all(keys.map((key) => redis.commands.zmscore(key, ...entries.map(({ member }) => member)))),
  );
  return entries.filter((_, index) => scores.every((list) => (list[index] ?? null) !== null));
}
