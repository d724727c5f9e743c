/** Messages of rooms in Redis: sorted sets ordered by time. Each change is one script. */
import { StoaError } from '../../../../core/errors.js';
import type { Limits } from '../../../../core/settings/limits.js';
import type { Message, Room } from '../../../../messaging/model.js';
import type { NewMessage, Page, Span } from '../../../../messaging/port.js';
import { refuse } from '../../../../messaging/refusals.js';
import { Outdated } from '../../../../core/write.js';
import { byteLimitReached } from '../../../../messaging/rooms/clock.js';
import { type RoomKeep, retentionOf, searchedSeconds } from '../../../../messaging/rooms/visibility.js';
import { ulidRandomPart } from '../../../../messaging/messages/ulid.js';
import { type MessageDelivery, deliveryKeptMs } from './deliveries.js';
import { feedOutboxFull, feedOutboxMax } from '../feed-outbox.js';
import type { MessageScores } from './message-scores.js';
import { audienceWord, noticeChannel } from './notices.js';
import { readPage, readSpan } from './pages.js';
import type { RedisKeys } from './keys.js';
import { type RedisConnection, runScript, withRedis } from './connection.js';
import { messageOf, messageParts } from './stored-message.js';
import { keepAsLong, keepAtLeast, noteRoomChange } from './room-change.js';
import type { WordIndex } from './search/word-index.js';

export interface RedisMessagesOptions {
  readonly redis: RedisConnection;
  readonly keys: RedisKeys;
  readonly limits: Limits;
  readonly nowMs: () => number;
  readonly scores: MessageScores;
  readonly words: WordIndex;
  /** The id of this server in its notices. */
  readonly origin: string;
  readonly onError: (error: unknown, about: string) => void;
}

/** A message that its script can store, with what was decided before. */
interface Posting extends Required<Pick<MessageDelivery, 'delivery' | 'isReadAhead'>> {
  readonly input: NewMessage;
  readonly room: Room;
  readonly parent: Message | undefined;
  readonly rootId: string | null;
  /** Null if the words are indexed after the script. */
  readonly wordKeys: readonly string[] | null;
  /** Null if the script does not count them. */
  readonly countedBytes: number | null;
  readonly bytesMax: number;
}

/** `before`: an earlier attempt has stored the message. The last five stored nothing. */
type PostOutcome = 'ok' | 'before' | 'deleted' | 'changed' | 'full' | 'parent' | 'bytes';

export class RedisMessages {
  readonly #options: RedisMessagesOptions;

  constructor(options: RedisMessagesOptions) {
    this.#options = options;
  }

  /**
   * On one Redis server, one script stores the message and its words, counts the author's bytes and advances
   * the room's clock. On a cluster the bytes are counted before the script and the words are indexed after
   * it, because they are on other nodes.
   */
  async post(
    input: NewMessage,
    room: Room,
    { delivery, bytes: counting, isReadAhead = false }: MessageDelivery,
  ): Promise<Message> {
    const { redis, limits, words, onError } = this.#options;
    const parent = input.parentId === null ? undefined : await this.find(room, input.parentId);
    if (input.parentId !== null && parent === undefined) throw refuse('parentUnknown');
    const rootId = parent === undefined ? null : (parent.rootId ?? parent.id);
    const bytes = Buffer.byteLength(input.body);
    const bytesMax = counting === 'limited' ? limits.messageBytesPerMinuteMax : Number.MAX_SAFE_INTEGER;
    const wordKeys = words.keysOf(room, input.body);
    const isIndexedLater = redis.isCluster && wordKeys.length > 0;
    const isCountedBefore = redis.isCluster && counting !== 'counted';
    if (isCountedBefore) await this.#countBytes(input.from, bytes, bytesMax);
    const giveBack = async (): Promise<void> => {
      if (!isCountedBefore) return;
      const about = 'giving back the bytes of a message that was not posted';
      await this.returnBytes(input.from, bytes).catch((error: unknown) => onError(error, about));
    };
    const args = this.#postArguments({
      input,
      room,
      parent,
      rootId,
      delivery,
      isReadAhead,
      wordKeys: isIndexedLater ? null : wordKeys,
      countedBytes: redis.isCluster || counting === 'counted' ? null : bytes,
      bytesMax,
    });
    const answer = await runScript(redis.commands, 'stoaPost', args).catch(async (error: unknown) => {
      // After other errors Redis may have stored the message.
      if (error instanceof StoaError && error.code === 'disk_full') await giveBack();
      throw error;
    });
    const [outcome, id, ts] = answer as [PostOutcome, string, string];
    if (outcome !== 'ok') await giveBack();
    checkPosted(outcome, room, id);
    const message = { ...input, id, rootId, tsMs: Number(ts) };
    if (isIndexedLater) await words.addPosted(room, message);
    return message;
  }

  /** The keys and arguments of the script `stoaPost`. A key that it does not need is that of the messages. */
  #postArguments(posting: Posting): (string | number)[] {
    const { input, room, parent, rootId, delivery, isReadAhead, wordKeys, countedBytes, bytesMax } = posting;
    const { keys, limits, nowMs, origin } = this.#options;
    const [before, after] = messageParts(input, rootId);
    const messages = keys.messages(room.id);
    const scriptKeys = [
      messages,
      keys.roomClock(room.id),
      keys.roomCount(room.id),
      keys.thread(room.id, rootId ?? 'none'),
      countedBytes === null ? messages : keys.bytes(input.from),
      delivery === null ? messages : keys.roomDelivery(room.id, delivery),
      keys.roomFeedOutbox(room.id),
      keys.roomChange(room.id),
      ...(wordKeys ?? [keys.unindexed(room.id)]),
    ];
    return [
      scriptKeys.length,
      ...scriptKeys,
      nowMs(),
      retentionOf(room, limits) * 1000,
      countedBytes ?? '',
      bytesMax,
      room.messageCount,
      parent?.tsMs ?? '',
      ulidRandomPart(),
      before,
      after,
      noticeChannel,
      `${origin} room ${room.id} ${audienceWord(room)} ${input.from}`,
      room.id,
      delivery === null ? '' : deliveryKeptMs(limits),
      wordKeys === null ? 'later' : '',
      feedOutboxMax,
      searchedSeconds(room, limits) * 1000,
      isReadAhead ? 'ahead' : '',
    ];
  }

  async #countBytes(agentId: string, bytes: number, bytesMax: number): Promise<void> {
    const { redis, keys } = this.#options;
    const args = [keys.bytes(agentId), bytes, bytesMax];
    const waitMs = Number(await runScript(redis.commands, 'stoaCountBytes', args));
    if (waitMs >= 0) throw byteLimitReached(waitMs);
  }

  /** Counts the bytes of a message before it is posted. Throws if they exceed the limit of the minute. */
  countBytes(agentId: string, bytes: number): Promise<void> {
    return this.#countBytes(agentId, bytes, this.#options.limits.messageBytesPerMinuteMax);
  }

  /** Gives back the bytes of a message that is not posted. */
  async returnBytes(agentId: string, bytes: number): Promise<void> {
    const { redis, keys } = this.#options;
    await runScript(redis.commands, 'stoaReturnBytes', [keys.bytes(agentId), bytes]);
  }

  read(room: RoomKeep, span: Span): Promise<Page<Message>> {
    const { keys, limits } = this.#options;
    return readPage(this.#options, keys.messages(room.id), span, retentionOf(room, limits), messageOf);
  }

  async find(room: RoomKeep, messageId: string): Promise<Message | undefined> {
    const place = { roomId: room.id, messageId };
    return (await this.findMany([place], retentionOf(room, this.#options.limits)))[0];
  }

  /** Finds messages by id. `tsMs` is the score of the message, if the caller knows it. */
  async findMany(
    wanted: readonly { roomId: string; messageId: string; tsMs?: number }[],
    retentionSeconds: number,
  ): Promise<Message[]> {
    const { keys, nowMs, scores } = this.#options;
    const oldestMs = nowMs() - retentionSeconds * 1000;
    const members = await Promise.all(
      wanted.map(({ roomId, messageId, tsMs }) => scores.find(keys.messages(roomId), messageId, tsMs)),
    );
    return members
      .flatMap((member) => (member === undefined ? [] : [messageOf(member)]))
      .filter(({ tsMs }) => tsMs > oldestMs);
  }

  /** The message with this time. A room has at most one. */
  async at(roomId: string, tsMs: number): Promise<Message | undefined> {
    const { redis, keys } = this.#options;
    const [member] = await withRedis(() => redis.commands.zrangebyscore(keys.messages(roomId), tsMs, tsMs));
    return member === undefined ? undefined : messageOf(member);
  }

  async thread(room: RoomKeep, rootId: string, afterMs: number, limit: number): Promise<Page<Message>> {
    const { keys, limits } = this.#options;
    const retentionSeconds = retentionOf(room, limits);
    const first = await this.find(room, rootId);
    const root = first !== undefined && afterMs < first.tsMs ? first : undefined;
    const repliesMax = limit - (root === undefined ? 0 : 1);
    const ids = await readSpan(
      this.#options,
      keys.thread(room.id, rootId),
      { afterMs, limit: repliesMax },
      retentionSeconds,
    );
    const page = ids.slice(0, repliesMax).map((messageId) => ({ roomId: room.id, messageId }));
    const replies = await this.findMany(page, retentionSeconds);
    return { items: root === undefined ? replies : [root, ...replies], hasMore: ids.length > repliesMax };
  }

  async delete(room: Room, messageId: string): Promise<boolean> {
    const { redis, keys, scores, words, origin } = this.#options;
    const messages = keys.messages(room.id);
    const member = await scores.find(messages, messageId);
    if (member === undefined) return false;
    const message = messageOf(member);
    await words.remove(room, { ...message, id: messageId, roomId: room.id });
    const removed = await runScript(redis.commands, 'stoaDelete', [
      messages,
      keys.thread(room.id, message.rootId ?? 'none'),
      keys.roomFeedOutbox(room.id),
      member,
      messageId,
      noticeChannel,
      `${origin} gone ${room.id} ${audienceWord(room)} ${message.from} ${messageId}`,
    ]);
    return removed === 1;
  }

  /** Before the transaction stores a longer retention: nothing of the room expires earlier than it says. */
  keepAtLeast(room: Room): Promise<void> {
    return this.#eachLists(room, async (lists) => {
      await keepAtLeast(this.#options, room, lists);
      return true;
    });
  }

  /** Makes the messages of a room live as long as its new retention says. Reads already use the new retention. */
  keepAsLong(room: Room): Promise<void> {
    return this.#eachLists(room, (lists) => keepAsLong(this.#options, room, lists));
  }

  /** The messages of the room, then its threads, some at a time, until `act` returns false. */
  async #eachLists(room: Room, act: (lists: readonly string[]) => Promise<boolean>): Promise<void> {
    const { keys } = this.#options;
    if (!(await act([keys.messages(room.id)]))) return;
    for (let afterMs = 0, more = true; more;) {
      const page = await this.read(room, { afterMs, limit: keptAtOnce });
      const roots = new Set(page.items.flatMap(({ rootId }) => rootId ?? []));
      if (roots.size > 0 && !(await act([...roots].map((root) => keys.thread(room.id, root))))) return;
      afterMs = page.items.at(-1)?.tsMs ?? afterMs;
      more = page.hasMore && page.items.length > 0;
    }
  }

  /** Removes what Redis has of a deleted room. Threads and words expire; nothing finds them. */
  async forget(roomId: string): Promise<void> {
    const { redis, keys } = this.#options;
    // Before the messages are removed: a post that is under way must not add one afterwards.
    await noteRoomChange(this.#options, roomId, 'deleted');
    const messages = keys.messages(roomId);
    const { index, readUpTo } = keys.scores(messages);
    const counters = [keys.roomClock(roomId), keys.roomCount(roomId), keys.unindexed(roomId)];
    const gone = [messages, index, readUpTo, ...counters];
    await withRedis(() => Promise.all(gone.map((key) => redis.commands.unlink(key))));
  }
}

/** Throws if the script stored nothing. With `bytes` comes how long the author must wait. */
function checkPosted(outcome: PostOutcome, room: Room, waitMs: string): void {
  if (outcome === 'deleted') throw refuse('roomUnknown');
  if (outcome === 'changed') throw new Outdated(`The room ${room.id}`);
  if (outcome === 'full') throw feedOutboxFull();
  if (outcome === 'parent') throw refuse('parentUnknown');
  if (outcome === 'bytes') throw byteLimitReached(Number(waitMs));
}

/** Messages whose threads are kept longer in one step. */
const keptAtOnce = 500;
