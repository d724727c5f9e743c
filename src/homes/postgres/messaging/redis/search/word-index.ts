/**
 * The words of messages in Redis, for the search. On one server a post indexes its words in the same script.
 * On a cluster the words are on other nodes than the room, so they are indexed after the post.
 */
import type { Limits } from '../../../../../core/settings/limits.js';
import { withoutSecrets } from '../../../../../find/text/secrets-in-text.js';
import type { Message, Room } from '../../../../../messaging/model.js';
import { searchedSeconds } from '../../../../../messaging/rooms/visibility.js';
import { roomWords } from '../../../../../messaging/messages/tokenizer.js';
import type { RedisKeys } from '../keys.js';
import { type RedisConnection, runScript, withRedis } from '../connection.js';

export interface WordIndexOptions {
  readonly redis: RedisConnection;
  readonly keys: RedisKeys;
  readonly limits: Limits;
  readonly nowMs: () => number;
  readonly onError: (error: unknown, about: string) => void;
}

type WordRoom = Pick<Room, 'owner' | 'isPrivate'>;
type IndexedMessage = Pick<Message, 'id' | 'roomId' | 'tsMs' | 'body'>;

/** Messages that one step of a repair indexes. */
const repairedAtOnce = 100;

export class WordIndex {
  readonly #options: WordIndexOptions;

  constructor(options: WordIndexOptions) {
    this.#options = options;
  }

  keysOf(room: WordRoom, body: string): string[] {
    return roomWords(room, withoutSecrets(body)).map((word) => this.#options.keys.word(word));
  }

  /**
   * Indexes a message right after its post. Does not throw, because the message is stored: its id stays in
   * the list of messages without words, and a repair indexes it later.
   */
  async addPosted(room: WordRoom, message: IndexedMessage): Promise<void> {
    try {
      await this.add(room, message);
      await this.markIndexed(message.roomId, [message.id]);
    } catch (error) {
      this.#options.onError(error, 'adding a message to the search; it is tried again');
    }
  }

  /** Indexing a message twice has the same result. */
  async add(room: WordRoom, { id, roomId, tsMs, body }: IndexedMessage): Promise<void> {
    const { redis, limits, nowMs } = this.#options;
    const retentionMs = searchedSeconds(room, limits) * 1000;
    await Promise.all(
      this.keysOf(room, body).map((key) =>
        runScript(redis.commands, 'stoaIndex', [key, nowMs(), retentionMs, tsMs, `${roomId}:${id}`]),
      ),
    );
  }

  async remove(room: WordRoom, { id, roomId, body }: IndexedMessage): Promise<void> {
    const { redis } = this.#options;
    await withRedis(() =>
      Promise.all(this.keysOf(room, body).map((key) => redis.commands.zrem(key, `${roomId}:${id}`))),
    );
  }

  /** The time of the newest message of the room that is not indexed yet, or undefined. */
  async newestMissing(roomId: string): Promise<string | undefined> {
    const { redis, keys } = this.#options;
    const newest = await withRedis(() =>
      redis.commands.zrange(keys.unindexed(roomId), '-1', '-1', 'WITHSCORES'),
    );
    return newest[1];
  }

  /** The ids of the oldest messages up to a time that are not indexed yet. */
  missing(roomId: string, upTo: string): Promise<string[]> {
    const { redis, keys } = this.#options;
    return withRedis(() =>
      redis.commands.zrangebyscore(keys.unindexed(roomId), '-inf', upTo, 'LIMIT', 0, repairedAtOnce),
    );
  }

  async markIndexed(roomId: string, ids: readonly string[]): Promise<void> {
    const { redis, keys } = this.#options;
    await withRedis(() => redis.commands.zrem(keys.unindexed(roomId), ...ids));
  }
}
