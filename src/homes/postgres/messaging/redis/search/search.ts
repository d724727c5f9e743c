/**
 * Search in Redis. Each word has a list of messages. The shortest list is read page by page from the newest
 * message, and each page is filtered by the lists of the other words.
 */
import type { Limits } from '../../../../../core/settings/limits.js';
import type { Message } from '../../../../../messaging/model.js';
import type { SearchQuery, SearchResult } from '../../../../../messaging/port.js';
import { ownWords } from '../../../../../messaging/messages/tokenizer.js';
import type { RedisMessages } from '../messages.js';
import { type Entry, entriesOf } from '../message-scores.js';
import type { RedisKeys } from '../keys.js';
import { type RedisConnection, withRedis } from '../connection.js';

const pageSize = 200;

export interface RedisSearchOptions {
  redis: RedisConnection;
  keys: RedisKeys;
  limits: Limits;
  nowMs: () => number;
  messages: RedisMessages;
}

/** The words of public rooms, and those of one user's rooms. Words of other users' rooms are never read. */
export async function searchRedis(options: RedisSearchOptions, query: SearchQuery): Promise<SearchResult> {
  const { messageRetentionSeconds, ownRoomRetentionSeconds } = options.limits;
  const { words, owner } = query;
  const inPublic = { ...query, retentionSeconds: messageRetentionSeconds };
  if (owner === null) return searchWords(options, inPublic);
  const inOwn = { ...query, words: ownWords(owner, words), retentionSeconds: ownRoomRetentionSeconds };
  const found = await Promise.all([searchWords(options, inPublic), searchWords(options, inOwn)]);
  return merged(found, query.limit);
}

/** The newest of all results. A search that stopped early hides everything older from the others too. */
function merged(results: readonly SearchResult[], limit: number): SearchResult {
  const rests = results.flatMap(({ restBeforeMs }) => (restBeforeMs === null ? [] : [restBeforeMs]));
  const restBeforeMs = rests.length === 0 ? null : Math.max(...rests);
  const messages = results
    .flatMap((result) => result.messages)
    .filter(({ tsMs }) => restBeforeMs === null || tsMs >= restBeforeMs)
    .toSorted((a, b) => b.tsMs - a.tsMs || (a.id < b.id ? 1 : -1));
  return { messages: messages.slice(0, limit), restBeforeMs };
}

/** Words of `roomWords`, whose messages are kept for a time. */
interface WordQuery extends SearchQuery {
  retentionSeconds: number;
}

/** Needs no `search:temp` key, so it works on a cluster, where the lists can be on different nodes. */
async function searchWords(options: RedisSearchOptions, query: WordQuery): Promise<SearchResult> {
  const { redis, keys, limits, nowMs, messages } = options;
  const { words, limit, retentionSeconds } = query;
  const sizes = await withRedis(() =>
    Promise.all(words.map((word) => redis.commands.zcard(keys.word(word)))),
  );
  if (sizes.includes(0)) return { messages: [], restBeforeMs: null };
  const [shortest = '', ...others] = words
    .toSorted((a, b) => (sizes[words.indexOf(a)] ?? 0) - (sizes[words.indexOf(b)] ?? 0))
    .map((word) => keys.word(word));
  const oldestMs = Math.max(nowMs() - retentionSeconds * 1000, query.afterMs);
  const found: Message[] = [];
  // One step is a lookup of one message in one list, as in the directory home.
  let stepsLeft = limits.searchStepsMax;
  let reachedMs = 0;
  for await (const page of pagesOf(redis, shortest, query, oldestMs)) {
    const wanted = (await inAll(redis, others, page.fresh)).map(placeOf);
    // Fetches only as many messages as are needed. Messages that no longer exist are skipped.
    for (let at = 0; at < wanted.length && found.length < limit; at += limit) {
      const existing = await messages.findMany(wanted.slice(at, at + limit), retentionSeconds);
      found.push(...existing.slice(0, limit - found.length));
    }
    if (found.length >= limit || page.isLast) return { messages: found, restBeforeMs: null };
    reachedMs = page.reachedMs;
    stepsLeft -= pageSize * words.length;
    if (stepsLeft <= 0) break;
  }
  // The next search continues with all messages of this millisecond, so those found already are left out.
  return { messages: found.filter(({ tsMs }) => tsMs > reachedMs), restBeforeMs: reachedMs + 1 };
}

/** Members of a list, newest first, that the query may find. */
async function* pagesOf(
  redis: RedisConnection,
  list: string,
  { beforeMs, last = null, roomId }: WordQuery,
  oldestMs: number,
): AsyncGenerator<{ fresh: readonly Entry[]; reachedMs: number; isLast: boolean }> {
  // Members of a list with the same time are ordered by their text.
  const lastShown = last === null ? '' : `${last.roomId}:${last.messageId}`;
  let newest = beforeMs === null ? '+inf' : last === null ? `(${beforeMs}` : String(beforeMs);
  /**
   * Members at the last time of the previous page. The next page starts at that time, not at an offset,
   * because new posts shift offsets. So it contains these members again.
   */
  let seen = new Set<string>();
  for (;;) {
    const bounds = [newest, `(${oldestMs}`, 'WITHSCORES', 'LIMIT', 0, pageSize + seen.size] as const;
    const page = entriesOf(await withRedis(() => redis.commands.zrevrangebyscore(list, ...bounds)));
    const reachedMs = page.at(-1)?.tsMs ?? 0;
    const fresh = page.filter(
      ({ member, tsMs }) =>
        !seen.has(member) &&
        (last === null || tsMs !== beforeMs || member < lastShown) &&
        (roomId === null || member.startsWith(`${roomId}:`)),
    );
    yield { fresh, reachedMs, isLast: page.length < pageSize + seen.size };
    newest = String(reachedMs);
    seen = new Set(page.filter(({ tsMs }) => tsMs === reachedMs).map(({ member }) => member));
  }
}

function placeOf({ member, tsMs }: Entry): { roomId: string; messageId: string; tsMs: number } {
  return { roomId: member.slice(0, 36), messageId: member.slice(37), tsMs };
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
