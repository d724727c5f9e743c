/** What servers on one Redis tell each other, and the notes that they leave for the change feed: words with spaces between, made here and by scripts. */
import type { Change } from '../../../core/change.js';
import { directReceived, messageDeleted, messagePosted } from '../../../messaging/changes.js';
import type { Notice } from '../../../messaging/port.js';
import { ulidTimeMs } from '../../../messaging/messages/ulid.js';
import { type RedisConnection, withRedis } from './redis.js';

export const newsChannel = 'stoa:messaging';

export interface NewsOptions {
  redis: RedisConnection;
  /** Which server the news are from. */
  origin: string;
  onError: (error: unknown, about: string) => void;
}

/** Readers look for themselves this often: published news can be lost, and on a cluster the driver changes the node that it listens to without a word. */
const lookAgainMs = 5_000;

/** The news of all servers, this one among them. */
export class NewsFeed {
  readonly #options: NewsOptions;
  readonly #listeners = new Set<(notice: Notice) => void>();
  #lookingAgain: NodeJS.Timeout | undefined;

  constructor(options: NewsOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { subscriber } = this.#options.redis;
    subscriber.on('message', (_channel: string, text: string) => {
      const notice = noticeOf(text);
      if (notice !== undefined) this.notify(notice);
    });
    subscriber.on('ready', () => void this.#subscribeAgain());
    await withRedis(() => subscriber.subscribe(newsChannel));
    this.#lookingAgain = setInterval(() => this.notify({ topic: 'all' }), lookAgainMs);
    this.#lookingAgain.unref();
  }

  listen(listener: (notice: Notice) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(notice: Notice): void {
    for (const listener of this.#listeners) listener(notice);
  }

  /** Other servers drop what they remember of the identity. */
  identityChanged(id: string): Promise<void> {
    return this.#tell(`identity ${id} changed`);
  }

  blocked(address: string): Promise<void> {
    return this.#tell(`blocked ${address} now`);
  }

  close(): void {
    this.#listeners.clear();
    clearInterval(this.#lookingAgain);
  }

  /** A connection that was lost and is back may have missed something, up to the moment at which it has subscribed. */
  async #subscribeAgain(): Promise<void> {
    const { redis, onError } = this.#options;
    try {
      await withRedis(() => redis.subscriber.subscribe(newsChannel));
    } catch (error) {
      onError(error, 'subscribing to the news of other servers');
    }
    this.notify({ topic: 'all' });
  }

  /** What a database has taken is so, whether or not the others hear of it. */
  async #tell(news: string): Promise<void> {
    const { redis, origin, onError } = this.#options;
    try {
      await withRedis(() => redis.commands.publish(newsChannel, `${origin} ${news}`));
    } catch (error) {
      onError(error, 'telling other servers of an identity, a room or a block');
    }
  }
}

/** Undefined for what another program wrote on the channel. */
function noticeOf(text: string): Notice | undefined {
  const { kind, id, words } = wordsOf(text);
  if (id === undefined) return undefined;
  switch (kind) {
    case 'room':
      return { topic: 'room', id, kind: 'new' };
    case 'gone':
      return words[2] === undefined ? undefined : { topic: 'room', id, kind: 'deleted', messageId: words[2] };
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

/** What the feed says about a note, or undefined for a note of another program. */
export function changeOf(note: string): Change | undefined {
  const { kind, id, words } = wordsOf(note);
  const [first, from, message] = words;
  if (id === undefined || first === undefined) return undefined;
  if (kind === 'inbox') return directReceived(first, id);
  if (message === undefined || from === undefined) return undefined;
  const room = { id, isPrivate: first === 'private' };
  if (kind === 'gone') return messageDeleted(room, message);
  return kind === 'room'
    ? messagePosted(room, { id: message, from, tsMs: ulidTimeMs(message) ?? 0 })
    : undefined;
}

/** The room of a post, its number of messages then, and the time of the message. */
export function postedOf(note: string): { room: string; total: number; tsMs: number } | undefined {
  const { kind, id, words } = wordsOf(note);
  const [, , message, total] = words;
  if (kind !== 'room' || id === undefined || message === undefined || total === undefined) return undefined;
  return { room: id, total: Number(total), tsMs: ulidTimeMs(message) ?? 0 };
}

function wordsOf(text: string): { kind: string | undefined; id: string | undefined; words: string[] } {
  const [, kind, id, ...words] = text.split(' ');
  return { kind, id, words };
}
