/**
 * Where a message lies in its sorted set. The scripts of this folder give it the time of its id as its
 * score; another AICQ server on the same Redis takes the two from two readings of the clock. Those whose
 * times differ are noted in an index beside the set, when somebody first asks for an id that is not where
 * its time says.
 */
import type { Limits } from '../../../core/settings/limits.js';
import { ulidTimeMs } from '../../../messaging/messages/ulid.js';
import { type RedisConnection, type RedisKeys, withRedis } from './redis.js';

export interface Entry {
  member: string;
  tsMs: number;
}

/** An answer of `WITHSCORES`: members and scores by turns. */
export function entriesOf(answer: readonly string[]): Entry[] {
  return answer.flatMap((member, at) => (at % 2 === 0 ? [{ member, tsMs: Number(answer[at + 1]) }] : []));
}

/** Members read at once for the index. */
const pageEntries = 500;
/** Another server may write a message so long after it has read the clock for it. */
const lateMs = 5_000;

export interface PlacesOptions {
  redis: RedisConnection;
  keys: RedisKeys;
  limits: Limits;
  nowMs: () => number;
}

export class MessagePlaces {
  readonly #options: PlacesOptions;
  /** By the set that is read: those who ask at once wait for one reading. */
  readonly #reading = new Map<string, Promise<void>>();

  constructor(options: PlacesOptions) {
    this.#options = options;
  }

  /** The member with this id, `atMs` being its score where that is known. */
  async find(list: string, id: string, atMs?: number): Promise<string | undefined> {
    const idMs = ulidTimeMs(id);
    if (idMs === undefined) return undefined;
    const found = await this.#at(list, id, atMs ?? idMs);
    if (found !== undefined || atMs !== undefined) return found;
    const placeMs = (await this.#indexed(list, id)) ?? (await this.#readThenIndexed(list, id));
    return placeMs === undefined ? undefined : this.#at(list, id, placeMs);
  }

  async #at(list: string, id: string, tsMs: number): Promise<string | undefined> {
    const { commands } = this.#options.redis;
    const members = await withRedis(() => commands.zrangebyscore(list, tsMs, tsMs));
    return members.find((member) => idOf(member) === id);
  }

  async #indexed(list: string, id: string): Promise<number | undefined> {
    const { redis, keys } = this.#options;
    const score = await withRedis(() => redis.commands.zscore(keys.places(list).index, id));
    return score === null ? undefined : Number(score);
  }

  async #readThenIndexed(list: string, id: string): Promise<number | undefined> {
    const reading = this.#reading.get(list) ?? this.#read(list).finally(() => this.#reading.delete(list));
    this.#reading.set(list, reading);
    await reading;
    return this.#indexed(list, id);
  }

  /** Notes what came since the last time. A set that is read to its end is read again from a few seconds before it. */
  async #read(list: string): Promise<void> {
    const { redis, keys, nowMs } = this.#options;
    const { index, readUpTo } = keys.places(list);
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
      const elsewhere = page.flatMap(({ member, tsMs }) => {
        const id = idOf(member);
        return id === undefined || ulidTimeMs(id) === tsMs ? [] : [tsMs, id];
      });
      if (elsewhere.length > 0) await withRedis(() => redis.commands.zadd(index, ...elsewhere));
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

  /** Longer than either kind of message lives. Where the index ends first, it is read again from the start. */
  #lifeMs(): number {
    const { messageRetentionSeconds, directRetentionSeconds } = this.#options.limits;
    return Math.max(1, messageRetentionSeconds, directRetentionSeconds) * 1_000;
  }
}

/** Undefined for a member that is not a message. */
function idOf(member: string): string | undefined {
  try {
    const stored = JSON.parse(member) as { id?: unknown } | null;
    return typeof stored?.id === 'string' ? stored.id : undefined;
  } catch {
    return undefined;
  }
}
