/** What servers on one Redis tell each other: words with spaces between, made here and by scripts, and read here. */
import type { Change } from '../../../core/change.js';
import type { Notice } from '../../../messaging/port.js';
import { ulidTimeMs } from '../../../messaging/ulid.js';
import { type RedisConnection, withRedis } from './redis.js';

export const newsChannel = 'stoa:messaging';

interface News {
  /** Absent where nobody but the change feed wants to know. */
  notice?: Notice;
  /** Absent where it is no news for the change feed. */
  change?: Change;
}

const identityEvents = ['registered', 'updated', 'rotated', 'linked', 'unlinked'] as const;
type IdentityEvent = (typeof identityEvents)[number];

/** Tells the other servers of what a database has taken. */
export interface Teller {
  identity(id: string, event: IdentityEvent): Promise<void>;
  roomMade(room: { id: string; isPrivate: boolean }): Promise<void>;
  blocked(address: string): Promise<void>;
}

export interface NewsOptions {
  redis: RedisConnection;
  /** Which server the news are from. */
  origin: string;
  announce: (change: Change) => Promise<void>;
  onError: (error: unknown, about: string) => void;
}

/**
 * Readers look for themselves so often: news are told once and to whoever listens, and on a cluster
 * the driver changes the node that it listens to without a word.
 */
const lookAgainMs = 5_000;

/** The news of all servers, this one among them. */
export class NewsFeed implements Teller {
  readonly #options: NewsOptions;
  readonly #listeners = new Set<(notice: Notice) => void>();
  #lookingAgain: NodeJS.Timeout | undefined;

  constructor(options: NewsOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { subscriber } = this.#options.redis;
    subscriber.on('message', (_channel: string, text: string) => this.#hear(parseNews(text)));
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

  identity(id: string, event: IdentityEvent): Promise<void> {
    return this.#tell(`identity ${id} ${event}`);
  }

  roomMade({ id, isPrivate }: { id: string; isPrivate: boolean }): Promise<void> {
    return this.#tell(`made ${id} ${isPrivate ? 'private' : 'public'}`);
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

  #hear(news: News | undefined): void {
    if (news === undefined) return;
    const { announce, onError } = this.#options;
    if (news.notice !== undefined) this.notify(news.notice);
    if (news.change !== undefined)
      announce(news.change).catch((error: unknown) =>
        onError(error, 'announcing a message in the change feed'),
      );
  }
}

/** Undefined for what some other program wrote on the channel. */
function parseNews(text: string): News | undefined {
  const [, kind, id, first, ...rest] = text.split(' ');
  if (id === undefined || first === undefined) return undefined;
  switch (kind) {
    case 'room':
    case 'gone':
      return messageNewsOf(kind, id, first, rest);
    case 'inbox':
      return {
        notice: { topic: 'inbox', id, kind: 'new' },
        change: { ...changed('direct.received', first), audience: 'recipient', recipient: id },
      };
    case 'made':
      return { change: { ...changed('room.created', id), audience: audienceOf(first) } };
    case 'blocked':
      return { notice: { topic: 'block', address: id } };
    case 'identity':
      return (identityEvents as readonly string[]).includes(first)
        ? {
            notice: { topic: 'identity', id },
            change: { ...changed(`identity.${first}`, id), audience: 'public' },
          }
        : undefined;
    default:
      return undefined;
  }
}

function messageNewsOf(
  kind: 'room' | 'gone',
  room: string,
  privacy: string,
  [from, message]: readonly string[],
): News | undefined {
  if (from === undefined || message === undefined) return undefined;
  const id = `${room}/${message}`;
  const audience = audienceOf(privacy);
  if (kind === 'gone')
    return {
      notice: { topic: 'room', id: room, kind: 'deleted', messageId: message },
      change: { ...changed('message.deleted', id), audience, facts: { room, message } },
    };
  return {
    notice: { topic: 'room', id: room, kind: 'new' },
    change: {
      ...changed('message.posted', id),
      audience,
      facts: { room, from, ts: ulidTimeMs(message) ?? 0 },
    },
  };
}

function changed(kind: string, id: string): Pick<Change, 'domain' | 'kind' | 'id' | 'user' | 'version'> {
  return { domain: 'messaging', kind, id, user: null, version: null };
}

function audienceOf(privacy: string): 'public' | 'operator' {
  return privacy === 'public' ? 'public' : 'operator';
}
