/** Pages of the sorted sets in Redis that have messages: the score is the time. */
import type { Page, Span } from '../../../../messaging/port.js';
import { type RedisConnection, withRedis } from './connection.js';

export interface PagesOptions {
  readonly redis: RedisConnection;
  readonly nowMs: () => number;
}

export function pageOf<T>(items: T[], limit: number): Page<T> {
  return { items: items.slice(0, limit), hasMore: items.length > limit };
}

export async function readPage<T extends { tsMs: number }>(
  options: PagesOptions,
  key: string,
  span: Span,
  retentionSeconds: number,
  parse: (member: string) => T,
): Promise<Page<T>> {
  const items = (await readSpan(options, key, span, retentionSeconds)).map(parse);
  const tsMs = items[span.limit - 1]?.tsMs;
  const next = items[span.limit];
  if (next === undefined || tsMs === undefined || next.tsMs !== tsMs) return pageOf(items, span.limit);
  // Another AICQ server can give several messages the same time. The next page begins after that time, so
  // this page must contain all of them.
  const { commands } = options.redis;
  const isForward = 'afterMs' in span;
  const beyondTime = isForward ? { afterMs: tsMs, limit: 0 } : { beforeMs: tsMs, limit: 0 };
  const [same, beyond] = await withRedis(() =>
    Promise.all([
      isForward ? commands.zrangebyscore(key, tsMs, tsMs) : commands.zrevrangebyscore(key, tsMs, tsMs),
      readSpan(options, key, beyondTime, retentionSeconds),
    ]),
  );
  return {
    items: [...items.filter((item) => item.tsMs !== tsMs), ...same.map(parse)],
    hasMore: beyond.length > 0,
  };
}

/** Reads one member more than the limit, so that the caller knows whether there are more. */
export function readSpan(
  { redis, nowMs }: PagesOptions,
  key: string,
  span: Span,
  retentionSeconds: number,
): Promise<string[]> {
  const oldestMs = nowMs() - retentionSeconds * 1000;
  const limit = ['LIMIT', 0, span.limit + 1] as const;
  return withRedis(() => {
    if ('afterMs' in span) {
      const after = `(${Math.max(span.afterMs, oldestMs)}`;
      return redis.commands.zrangebyscore(key, after, '+inf', ...limit);
    }
    const before = span.beforeMs === null ? '+inf' : `(${span.beforeMs}`;
    return redis.commands.zrevrangebyscore(key, before, `(${oldestMs}`, ...limit);
  });
}
