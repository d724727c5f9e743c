/** Messages in Redis: sorted sets by time, one script for each change. */
import type { Limits } from '../../../core/settings/limits.js';
import type { DirectMessage, Message, Proof, Room } from '../../../messaging/model.js';
import type {
  Delivered,
  Delivery,
  NewDirectMessage,
  NewMessage,
  Page,
  Span,
} from '../../../messaging/port.js';
import { refuse } from '../../../messaging/refusals.js';
import { byteLimitReached } from '../../../messaging/rooms/clock.js';
import { indexWords } from '../../../messaging/messages/tokenizer.js';
import { ulidChance } from '../../../messaging/messages/ulid.js';
import { MessagePlaces } from './places.js';
import { messageNotesMax, tooManyNotes } from './notes.js';
import { type RedisConnection, type RedisKeys, runScript, withRedis } from './redis.js';

/** The seed's fields, and after them ours. */
interface StoredMessage {
  id: string;
  from: string;
  body: string;
  ts: number;
  room_id?: string;
  to?: string;
  pid?: string;
  sig?: string;
  root?: string;
  server_signed?: boolean;
  proof?: Omit<Proof, 'signature'>;
}

export interface MessagesOptions {
  redis: RedisConnection;
  keys: RedisKeys;
  limits: Limits;
  nowMs: () => number;
  /** Where news go, and who they are from. */
  channel: string;
  origin: string;
  onError: (error: unknown, about: string) => void;
}

/** Messages that are brought into the search in one step. */
const indexedAtOnce = 100;

export class RedisMessages {
  readonly #options: MessagesOptions;
  readonly #places: MessagePlaces;

  constructor(options: MessagesOptions) {
    this.#options = options;
    this.#places = new MessagePlaces(options);
  }

  /** On one server the message, its index, the bytes and the room's time are one step. On a cluster only what lies with the room is. */
  async post(input: NewMessage, room: Room, delivery: string | null = null): Promise<Message> {
    const { redis, keys, limits, nowMs, channel, origin } = this.#options;
    const { isCluster, commands } = redis;
    const bytesMax = delivery === null ? limits.messageBytesPerMinuteMax : Number.MAX_SAFE_INTEGER;
    const parent = input.parentId === null ? undefined : await this.find(input.roomId, input.parentId);
    if (input.parentId !== null && parent === undefined) throw refuse('parentUnknown');
    const rootId = parent === undefined ? null : (parent.rootId ?? parent.id);
    const words = room.isPrivate ? [] : indexWords(input.body).map((word) => keys.word(word));
    const isIndexedLater = isCluster && words.length > 0;
    const bytes = Buffer.byteLength(input.body);
    if (isCluster) await this.#spend(input.from, bytes, bytesMax);
    const [before, after] = messageParts(input, rootId);
    const messages = keys.messages(input.roomId);
    const scriptKeys = [
      messages,
      keys.roomClock(input.roomId),
      keys.roomCount(input.roomId),
      keys.thread(input.roomId, rootId ?? 'none'),
      isCluster ? messages : keys.bytes(input.from),
      delivery === null ? messages : keys.roomDelivery(input.roomId, delivery),
      keys.roomNotes(input.roomId),
      ...(isIndexedLater ? [keys.unindexed(input.roomId)] : words),
    ];
    const answer = await runScript(commands, 'stoaPost', [
      scriptKeys.length,
      ...scriptKeys,
      nowMs(),
      limits.messageRetentionSeconds * 1000,
      isCluster ? '' : bytes,
      bytesMax,
      room.messageCount,
      parent?.tsMs ?? '',
      ulidChance(),
      before,
      after,
      channel,
      `${origin} room ${room.id} ${room.isPrivate ? 'private' : 'public'} ${input.from}`,
      room.id,
      delivery === null ? '' : deliveryMs(limits),
      isIndexedLater ? 'later' : '',
      messageNotesMax,
    ]);
    const [outcome, id, ts] = answer as [string, string, string];
    if (outcome === 'notes') throw tooManyNotes();
    if (outcome === 'parent') throw refuse('parentUnknown');
    if (outcome === 'bytes') throw byteLimitReached(Number(id));
    if (isIndexedLater) await this.#indexPosted(words, room.id, id, Number(ts));
    return { ...input, id, rootId, tsMs: Number(ts) };
  }

  async #spend(agentId: string, bytes: number, bytesMax: number): Promise<void> {
    const { redis, keys } = this.#options;
    const wait = Number(await runScript(redis.commands, 'stoaSpend', [keys.bytes(agentId), bytes, bytesMax]));
    if (wait >= 0) throw byteLimitReached(wait);
  }

  async bytesLeft(agentId: string): Promise<number> {
    const { redis, keys, limits } = this.#options;
    const used = await withRedis(() => redis.commands.get(keys.bytes(agentId)));
    return Math.max(0, limits.messageBytesPerMinuteMax - Number(used ?? 0));
  }

  /** Where a delivery stands, when it was made before. Asked for first: what it needed then may be gone since. */
  async deliveredBefore({ id, message }: Delivery): Promise<Delivered | undefined> {
    const { redis, keys } = this.#options;
    const key =
      'roomId' in message ? keys.roomDelivery(message.roomId, id) : keys.inboxDelivery(message.to, id);
    const [messageId, ts] = (await withRedis(() => redis.commands.get(key)))?.split(' ') ?? [];
    return messageId === undefined ? undefined : { id: messageId, tsMs: Number(ts) };
  }

  /** The message is posted, and its room knows that it is not indexed: a fault here is mended later, and not the author's. */
  async #indexPosted(words: readonly string[], roomId: string, id: string, tsMs: number): Promise<void> {
    const { redis, keys, onError } = this.#options;
    try {
      await this.#index(words, roomId, id, tsMs);
      await withRedis(() => redis.commands.zrem(keys.unindexed(roomId), id));
    } catch (error) {
      onError(error, 'bringing a message into the search; it is tried again');
    }
  }

  /** The time of the newest message that the room knows to be missing in the search; undefined where none is. */
  async newestMissing(roomId: string): Promise<string | undefined> {
    const { redis, keys } = this.#options;
    return (
      await withRedis(() => redis.commands.zrange(keys.unindexed(roomId), '-1', '-1', 'WITHSCORES'))
    )[1];
  }

  /** Brings the next of them into the search, up to that time; false when none is left. To index a message twice changes nothing. */
  async indexMissing(roomId: string, newest: string): Promise<boolean> {
    const { redis, keys } = this.#options;
    const list = keys.unindexed(roomId);
    const ids = await withRedis(() =>
      redis.commands.zrangebyscore(list, '-inf', newest, 'LIMIT', 0, indexedAtOnce),
    );
    if (ids.length === 0) return false;
    const messages = await this.findMany(ids.map((messageId) => ({ roomId, messageId })));
    for (const { id, body, tsMs } of messages)
      await this.#index(
        indexWords(body).map((word) => keys.word(word)),
        roomId,
        id,
        tsMs,
      );
    await withRedis(() => redis.commands.zrem(list, ...ids));
    return true;
  }

  async #index(words: readonly string[], roomId: string, id: string, tsMs: number): Promise<void> {
    const { redis, limits, nowMs } = this.#options;
    const retentionMs = limits.messageRetentionSeconds * 1000;
    await Promise.all(
      words.map((word) =>
        runScript(redis.commands, 'stoaIndex', [word, nowMs(), retentionMs, tsMs, `${roomId}:${id}`]),
      ),
    );
  }

  async read(roomId: string, span: Span): Promise<Page<Message>> {
    const { keys, limits } = this.#options;
    return this.#page(keys.messages(roomId), span, limits.messageRetentionSeconds, messageOf);
  }

  async find(roomId: string, messageId: string): Promise<Message | undefined> {
    return (await this.findMany([{ roomId, messageId }]))[0];
  }

  /** By id; `tsMs` is where the message lies, for those who know it. */
  async findMany(
    wanted: readonly { roomId: string; messageId: string; tsMs?: number }[],
  ): Promise<Message[]> {
    const { keys, limits, nowMs } = this.#options;
    const oldestMs = nowMs() - limits.messageRetentionSeconds * 1000;
    const members = await Promise.all(
      wanted.map(({ roomId, messageId, tsMs }) => this.#places.find(keys.messages(roomId), messageId, tsMs)),
    );
    return members
      .flatMap((member) => (member === undefined ? [] : [messageOf(member)]))
      .filter(({ tsMs }) => tsMs > oldestMs);
  }

  /** The message at a time, of which a room has one at most. */
  async at(roomId: string, tsMs: number): Promise<Message | undefined> {
    const { redis, keys } = this.#options;
    const [member] = await withRedis(() => redis.commands.zrangebyscore(keys.messages(roomId), tsMs, tsMs));
    return member === undefined ? undefined : messageOf(member);
  }

  async directAt(agentId: string, tsMs: number): Promise<DirectMessage | undefined> {
    const { redis, keys } = this.#options;
    const [member] = await withRedis(() => redis.commands.zrangebyscore(keys.inbox(agentId), tsMs, tsMs));
    return member === undefined ? undefined : (await this.#withAcknowledged(agentId, [directOf(member)]))[0];
  }

  async thread(roomId: string, rootId: string, afterMs: number, limit: number): Promise<Page<Message>> {
    const first = await this.find(roomId, rootId);
    const root = first !== undefined && afterMs < first.tsMs ? first : undefined;
    const room = limit - (root === undefined ? 0 : 1);
    const ids = await this.#span(
      this.#options.keys.thread(roomId, rootId),
      { afterMs, limit: room },
      this.#options.limits.messageRetentionSeconds,
    );
    const answers = await this.findMany(ids.slice(0, room).map((messageId) => ({ roomId, messageId })));
    return { items: root === undefined ? answers : [root, ...answers], hasMore: ids.length > room };
  }

  async delete(room: Room, messageId: string): Promise<boolean> {
    const { redis, keys, channel, origin } = this.#options;
    const messages = keys.messages(room.id);
    const member = await this.#places.find(messages, messageId);
    if (member === undefined) return false;
    const message = messageOf(member);
    await withRedis(() =>
      Promise.all(
        indexWords(message.body).map((word) =>
          redis.commands.zrem(keys.word(word), `${room.id}:${messageId}`),
        ),
      ),
    );
    const removed = await runScript(redis.commands, 'stoaDelete', [
      messages,
      keys.thread(room.id, message.rootId ?? 'none'),
      keys.roomNotes(room.id),
      member,
      messageId,
      channel,
      `${origin} gone ${room.id} ${room.isPrivate ? 'private' : 'public'} ${message.from} ${messageId}`,
    ]);
    return removed === 1;
  }

  async send(input: NewDirectMessage, delivery: string | null = null): Promise<DirectMessage> {
    const { redis, keys, limits, nowMs, channel, origin } = this.#options;
    const [before, after] = directParts(input);
    const answer = await runScript(redis.commands, 'stoaSend', [
      keys.inbox(input.to),
      keys.inboxClock(input.to),
      delivery === null ? keys.inbox(input.to) : keys.inboxDelivery(input.to, delivery),
      keys.pending(input.to),
      keys.inboxNotes(input.to),
      nowMs(),
      limits.directRetentionSeconds * 1000,
      ulidChance(),
      before,
      after,
      channel,
      `${origin} inbox ${input.to}`,
      delivery === null ? '' : deliveryMs(limits),
      messageNotesMax,
    ]);
    const [outcome, id, ts] = answer as [string, string, string];
    if (outcome === 'notes') throw tooManyNotes();
    return { ...input, id, tsMs: Number(ts), acknowledged: false };
  }

  async inbox(agentId: string, span: Span): Promise<Page<DirectMessage>> {
    const { keys, limits } = this.#options;
    const page = await this.#page(keys.inbox(agentId), span, limits.directRetentionSeconds, directOf);
    return { ...page, items: await this.#withAcknowledged(agentId, page.items) };
  }

  async pending(agentId: string, afterMs: number, limit: number): Promise<Page<DirectMessage>> {
    const { redis, keys, limits, nowMs } = this.#options;
    const fromMs = Math.max(afterMs, nowMs() - limits.directRetentionSeconds * 1000);
    const members = await runScript(redis.commands, 'stoaPending', [
      keys.inbox(agentId),
      keys.acknowledged(agentId),
      keys.pending(agentId),
      fromMs,
      limit + 1,
    ]);
    // The script answers members of the inbox.
    return pageOf((members as string[]).map(directOf), limit);
  }

  async acknowledge(agentId: string, ids: readonly string[]): Promise<number> {
    const { redis, keys, limits } = this.#options;
    const inbox = keys.inbox(agentId);
    const members = await Promise.all([...new Set(ids)].map((id) => this.#places.find(inbox, id)));
    const named = members
      .flatMap((member) => (member === undefined ? [] : [directOf(member)]))
      .flatMap(({ id, tsMs }) => [tsMs, id]);
    if (named.length === 0) return 0;
    const args = [
      inbox,
      keys.acknowledged(agentId),
      keys.pending(agentId),
      limits.directRetentionSeconds * 1000,
      ...named,
    ];
    return Number(await runScript(redis.commands, 'stoaAcknowledge', args));
  }

  async #withAcknowledged(agentId: string, messages: readonly DirectMessage[]): Promise<DirectMessage[]> {
    const { redis, keys } = this.#options;
    if (messages.length === 0) return [];
    const scores = await withRedis(() =>
      redis.commands.zmscore(keys.acknowledged(agentId), ...messages.map(({ id }) => id)),
    );
    return messages.map((message, index) => ({ ...message, acknowledged: (scores[index] ?? null) !== null }));
  }

  async #page<T extends { tsMs: number }>(
    key: string,
    span: Span,
    retentionSeconds: number,
    read: (member: string) => T,
  ): Promise<Page<T>> {
    const items = (await this.#span(key, span, retentionSeconds)).map(read);
    const tsMs = items[span.limit - 1]?.tsMs;
    const next = items[span.limit];
    if (next === undefined || tsMs === undefined || next.tsMs !== tsMs) return pageOf(items, span.limit);
    // Another AICQ server may give several messages one time. The next page begins past that time, so that this one takes all of them.
    const { commands } = this.#options.redis;
    const isForward = 'afterMs' in span;
    const [same, beyond] = await withRedis(() =>
      Promise.all([
        isForward ? commands.zrangebyscore(key, tsMs, tsMs) : commands.zrevrangebyscore(key, tsMs, tsMs),
        this.#span(
          key,
          isForward ? { afterMs: tsMs, limit: 0 } : { beforeMs: tsMs, limit: 0 },
          retentionSeconds,
        ),
      ]),
    );
    return {
      items: [...items.filter((item) => item.tsMs !== tsMs), ...same.map(read)],
      hasMore: beyond.length > 0,
    };
  }

  /** One more than the page holds, so that the page knows whether there is more. */
  #span(key: string, span: Span, retentionSeconds: number): Promise<string[]> {
    const { redis, nowMs } = this.#options;
    const oldestMs = nowMs() - retentionSeconds * 1000;
    return withRedis(() =>
      'afterMs' in span
        ? redis.commands.zrangebyscore(
            key,
            `(${Math.max(span.afterMs, oldestMs)}`,
            '+inf',
            'LIMIT',
            0,
            span.limit + 1,
          )
        : redis.commands.zrevrangebyscore(
            key,
            span.beforeMs === null ? '+inf' : `(${span.beforeMs}`,
            `(${oldestMs}`,
            'LIMIT',
            0,
            span.limit + 1,
          ),
    );
  }
}

/** Twice the time for which a delivery is tried: no attempt comes after the first is forgotten. */
function deliveryMs(limits: Limits): number {
  return 2 * limits.commitDeliverySecondsMax * 1000;
}

function pageOf<T>(items: T[], limit: number): Page<T> {
  return { items: items.slice(0, limit), hasMore: items.length > limit };
}

/** A message as the scripts write it. */
export function messageMember(message: Message): string {
  return memberOf(message, messageParts(message, message.rootId));
}

export function directMember(message: DirectMessage): string {
  return memberOf(message, directParts(message));
}

function memberOf({ id, tsMs }: Delivered, [before, after]: readonly [string, string]): string {
  return `{"id":"${id}",${before},"ts":${tsMs}${after}}`;
}

function messageParts(input: NewMessage, rootId: string | null): [string, string] {
  return aroundTime(
    { room_id: input.roomId, ...shared(input), ...(input.parentId !== null && { pid: input.parentId }) },
    { ...(rootId !== null && { root: rootId }), ...ours(input) },
  );
}

function directParts(input: NewDirectMessage): [string, string] {
  return aroundTime(
    { from: input.from, to: input.to, body: input.body },
    { ...(input.proof !== null && { sig: input.proof.signature }), ...ours(input) },
  );
}

/** The signature takes the seed's reserved place. */
function shared({ from, body, proof }: NewMessage): Partial<StoredMessage> {
  return { from, body, ...(proof !== null && { sig: proof.signature }) };
}

function ours({ serverSigned, proof }: Pick<NewMessage, 'serverSigned' | 'proof'>): Partial<StoredMessage> {
  if (proof === null) return serverSigned ? { server_signed: true } : {};
  const { signature: _, ...rest } = proof;
  return { ...(serverSigned && { server_signed: true }), proof: rest };
}

/** The JSON before and after the time, which only the script knows: the id goes in front. */
function aroundTime(before: object, after: object): [string, string] {
  const rest = JSON.stringify(after).slice(1, -1);
  return [JSON.stringify(before).slice(1, -1), rest === '' ? '' : `,${rest}`];
}

function proofOf({ sig, proof }: StoredMessage): Proof | null {
  return sig === undefined || proof === undefined ? null : { ...proof, signature: sig };
}

function messageOf(member: string): Message {
  // Members are written by the scripts of this folder, or by an AICQ server with the seed's fields.
  const stored = JSON.parse(member) as StoredMessage;
  return {
    id: stored.id,
    roomId: stored.room_id ?? '',
    from: stored.from,
    body: stored.body,
    parentId: stored.pid ?? null,
    rootId: stored.root ?? null,
    tsMs: stored.ts,
    proof: proofOf(stored),
    serverSigned: stored.server_signed ?? false,
  };
}

function directOf(member: string): DirectMessage {
  // As above.
  const stored = JSON.parse(member) as StoredMessage;
  return {
    id: stored.id,
    from: stored.from,
    to: stored.to ?? '',
    body: stored.body,
    tsMs: stored.ts,
    proof: proofOf(stored),
    serverSigned: stored.server_signed ?? false,
    acknowledged: false,
  };
}
