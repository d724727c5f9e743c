/**
 * Notices that servers on one Redis publish to each other. The entries of the feed outbox have the same
 * format: words with spaces between them, written here and by the scripts.
 */
import type { Change } from '../../../../core/change.js';
import { Periodic } from '../../../../core/waiting/periodic.js';
import { Listeners } from '../../../../core/listeners.js';
import { directReceived, messageDeleted, messagePosted } from '../../../../messaging/changes.js';
import type { Room } from '../../../../messaging/model.js';
import type { Notice } from '../../../../messaging/port.js';
import { ulidTimeMs } from '../../../../messaging/messages/ulid.js';
import { type RedisConnection, withRedis } from './connection.js';

export const noticeChannel = 'stoa:messaging';

export interface NoticesOptions {
  redis: RedisConnection;
  /** The id of this server. It is the first word of its notices. */
  origin: string;
  onError: (error: unknown, about: string) => void;
}

/**
 * How often readers are woken without a notice. Published notices can be lost, and on a cluster the driver
 * changes the node of its subscription without an event.
 */
const wakeAllEveryMs = 1_000;

export class Notices {
  readonly #options: NoticesOptions;
  readonly #listeners = new Listeners<Notice>();
  /** Wakes all readers. */
  readonly #waking: Periodic;

  constructor(options: NoticesOptions) {
    this.#options = options;
    this.#waking = new Periodic({
      everyMs: wakeAllEveryMs,
      run: async () => this.notify({ topic: 'all' }),
      onError: (error) => options.onError(error, 'waking the readers of messages'),
    });
  }

  async start(): Promise<void> {
    const { subscriber } = this.#options.redis;
    subscriber.on('message', (_channel: string, text: string) => {
      const notice = noticeOf(text);
      if (notice !== undefined) this.notify(notice);
    });
    subscriber.on('ready', () => void this.#subscribeAgain());
    await withRedis(() => subscriber.subscribe(noticeChannel));
    this.#waking.start();
  }

  /**
   * Calls the listener for the notices of all servers, including this one. Returns a function that removes
   * it.
   */
  listen(listener: (notice: Notice) => void): () => void {
    return this.#listeners.add(listener);
  }

  /** Calls the listeners of this server. */
  notify(notice: Notice): void {
    this.#listeners.tell(notice);
  }

  /** Makes all servers drop the identity from their caches. */
  identityChanged(id: string): Promise<void> {
    return this.#publish(`identity ${id} changed`);
  }

  /** Makes all servers end the streams of a deleted room. */
  roomRemoved(id: string): Promise<void> {
    return this.#publish(`removed ${id} now`);
  }

  blocked(address: string): Promise<void> {
    return this.#publish(`blocked ${address} now`);
  }

  close(): Promise<void> {
    return this.#waking.close();
  }

  /**
   * After a reconnection. Notices may have been lost until the new subscription, so all readers are woken.
   */
  async #subscribeAgain(): Promise<void> {
    const { redis, onError } = this.#options;
    try {
      await withRedis(() => redis.subscriber.subscribe(noticeChannel));
    } catch (error) {
      onError(error, 'subscribing to the notices of other servers');
    }
    this.notify({ topic: 'all' });
  }

  /** Does not throw: the change is stored already, whether or not the notice arrives. */
  async #publish(notice: string): Promise<void> {
    const { redis, origin, onError } = this.#options;
    try {
      await withRedis(() => redis.commands.publish(noticeChannel, `${origin} ${notice}`));
    } catch (error) {
      onError(error, 'notifying other servers of an identity, a room or a block');
    }
  }
}

/** Undefined for text that another program published on the channel. */
function noticeOf(text: string): Notice | undefined {
  const { kind, id, words } = wordsOf(text);
  if (id === undefined) return undefined;
  switch (kind) {
    case 'room':
      return { topic: 'room', id, kind: 'new' };
    case 'gone':
      return words[2] === undefined ? undefined : { topic: 'room', id, kind: 'deleted', messageId: words[2] };
    case 'removed':
      return { topic: 'room', id, kind: 'removed' };
    case 'inbox':
      return { topic: 'inbox', id, kind: 'new' };
    case 'blocked':
      return { topic: 'block', address: id };
    case 'identity':
      return { topic: 'identity', id };
    default:
      return undefined;
  }
}

/** The change that an entry of the feed outbox stands for. Undefined if another program wrote the entry. */
export function changeOf(entry: string): Change | undefined {
  const { kind, id, words } = wordsOf(entry);
  const [first, from, message] = words;
  if (id === undefined || first === undefined) return undefined;
  if (kind === 'inbox') return directReceived(first, id);
  if (message === undefined || from === undefined) return undefined;
  const room = { id, ...audienceOf(first) };
  if (kind === 'gone') return messageDeleted(room, message);
  return kind === 'room'
    ? messagePosted(room, { id: message, from, tsMs: ulidTimeMs(message) ?? 0 })
    : undefined;
}

/** Who may see a change, as a word of a notice. */
export function audienceWord({ owner, isPrivate }: Pick<Room, 'owner' | 'isPrivate'>): string {
  if (owner !== null) return `${ownerMark}${encodeURIComponent(owner)}`;
  return isPrivate ? 'private' : 'public';
}

function audienceOf(word: string): Pick<Room, 'owner' | 'isPrivate'> {
  return word.startsWith(ownerMark)
    ? { owner: decodeURIComponent(word.slice(ownerMark.length)), isPrivate: false }
    : { owner: null, isPrivate: word !== 'public' };
}

const ownerMark = 'user:';

/** For the entry of a post: the room, its number of messages after the post, and the time of the message. */
export function postedOf(entry: string): { room: string; total: number; tsMs: number } | undefined {
  const { kind, id, words } = wordsOf(entry);
  const [, , message, total] = words;
  if (kind !== 'room' || id === undefined || message === undefined || total === undefined) return undefined;
  return { room: id, total: Number(total), tsMs: ulidTimeMs(message) ?? 0 };
}

function wordsOf(text: string): { kind: string | undefined; id: string | undefined; words: string[] } {
  const [, kind, id, ...words] = text.split(' ');
  return { kind, id, words };
}
