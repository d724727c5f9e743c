/**
 * Finds a message by its id in its sorted set. The scripts of this folder use the time of the id as the
 * score. Another AICQ server on the same Redis reads the clock twice, so the two can differ. When an id is
 * not found at the score of its own time, such messages are collected in an index beside the set.
 */
import type { Limits } from '../../../../core/settings/limits.js';
import { ulidTimeMs } from '../../../../messaging/messages/ulid.js';
import type { RedisKeys } from './keys.js';
import { type RedisConnection, withRedis } from './connection.js';

export interface Entry {
  member: string;
  tsMs: number;
}

/** Parses an answer of `WITHSCORES`, which alternates members and scores. */
export function entriesOf(answer: readonly string[]): Entry[] {
  return answer.flatMap((member, at) => (at % 2 === 0 ? [{ member, tsMs: Number(answer[at + 1]) }] : []));
}

/** Members that are read at once for the index. */
const pageEntries = 500;
/** The longest time between reading the clock and writing the message on another server. */
const lateMs = 5_000;

export interface MessageScoresOptions {
  redis: RedisConnection;
  keys: RedisKeys;
  limits: Limits;
  nowMs: () => number;
}

export class MessageScores {
  readonly #options: MessageScoresOptions;
  /** By sorted set. Concurrent calls wait for the same scan. */
  readonly #scanning = new Map<string, Promise<void>>();

  constructor(options: MessageScoresOptions) {
    this.#options = options;
  }

  /** The member with this id. `scoreMs` is its score, if the caller knows it. */
  async find(list: string, id: string, scoreMs?: number): Promise<string | undefined> {
    const idMs = ulidTimeMs(id);
    if (idMs === undefined) return undefined;
    const found = await this.#at(list, id, scoreMs ?? idMs);
    if (found !== undefined || scoreMs !== undefined) return found;
    const indexedMs = (await this.#indexed(list, id)) ?? (await this.#scanThenIndexed(list, id));
    return indexedMs === undefined ? undefined : this.#at(list, id, indexedMs);
  }

  async #at(list: string, id: string, tsMs: number): Promise<string | undefined> {
    const { commands } = this.#options.redis;
    const members = await withRedis(() => commands.zrangebyscore(list, tsMs, tsMs));
    return members.find((member) => idOf(member) === id);
  }

  async #indexed(list: string, id: string): Promise<number | undefined> {
    const { redis, keys } = this.#options;
    const score = await withRedis(() => redis.commands.zscore(keys.scores(list).index, id));
    return score === null ? undefined : Number(score);
  }

  async #scanThenIndexed(list: string, id: string): Promise<number | undefined> {
    const scanning = this.#scanning.get(list) ?? this.#scan(list).finally(() => this.#scanning.delete(list));
    this.#scanning.set(list, scanning);
    await scanning;
    return this.#indexed(list, id);
  }

  /** Adds messages to the index. Continues a few seconds before the end of the last scan, for late writes. */
  async #scan(list: string): Promise<void> {
    const { redis, keys, nowMs } = this.#options;
    const { index, readUpTo } = keys.scores(list);
    const lifeMs = this.#lifeMs();
    const oldestMs = nowMs() - lifeMs;
    const before = await withRedis(() => redis.commands.get(readUpTo));
    let from = before === null ? '-inf' : before;
    let newestMs = Number(before ?? 0);
    for (;;) {
      const page = entriesOf(
        await withRedis(() =>
          redis.commands.zrangebyscore(list, from, '+inf', 'WITHSCORES', 'LIMIT', 0, pageEntries),
        ),
      );
      const differing = page.flatMap(({ member, tsMs }) => {
        const id = idOf(member);
        return id === undefined || ulidTimeMs(id) === tsMs ? [] : [tsMs, id];
      });
      if (differing.length > 0) await withRedis(() => redis.commands.zadd(index, ...differing));
      const lastMs = page.at(-1)?.tsMs;
      newestMs = Math.max(newestMs, lastMs ?? 0);
      if (lastMs === undefined || page.length < pageEntries) break;
      from = from === String(lastMs) ? `(${lastMs}` : String(lastMs);
    }
    const upToMs = Math.min(newestMs, nowMs()) - lateMs;
    await withRedis(() =>
      Promise.all([
        redis.commands.zremrangebyscore(index, '-inf', oldestMs),
        redis.commands.pexpire(index, lifeMs),
        redis.commands.set(readUpTo, Math.max(0, upToMs), 'PX', lifeMs),
      ]),
    );
  }

  /**
   * As long as the longest retention time of the settings. If the index expires earlier, the next scan reads
   * the whole set.
   */
  #lifeMs(): number {
    const { messageRetentionSeconds, ownRoomRetentionSeconds, directRetentionSeconds } = this.#options.limits;
    return Math.max(1, messageRetentionSeconds, ownRoomRetentionSeconds, directRetentionSeconds) * 1_000;
  }
}

/** Undefined if the member is not a message. */
function idOf(member: string): string | undefined {
  try {
    const stored = JSON.parse(member) as { id?: unknown } | null;
    return typeof stored?.id === 'string' ? stored.id : undefined;
  } catch {
    return undefined;
  }
}
