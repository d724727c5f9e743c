/** The parts of messaging on PostgreSQL and Redis, connected with each other. */
import { randomUUID } from 'node:crypto';
import type { Limits } from '../../../core/settings/limits.js';
import { type PostgresSql, checkWritable } from '../database/connection.js';
import type { PostgresFeed } from '../feed/feed.js';
import { HealthProbe } from '../database/health-probe.js';
import type { PostgresWriter } from '../write/writer.js';
import { FeedOutbox } from './feed-outbox.js';
import { RedisGuards } from './redis/guards.js';
import { type KnownAgents, PostgresIdentities } from './identities.js';
import { RedisInboxes } from './redis/inboxes.js';
import { MessageScores } from './redis/message-scores.js';
import { RedisMessages } from './redis/messages.js';
import { Notices } from './redis/notices.js';
import { RedisKeys } from './redis/keys.js';
import { type RedisConnection, checkRedisWritable } from './redis/connection.js';
import { RedisRequestRates } from './redis/request-rates.js';
import { PostgresRooms } from './rooms.js';
import { SearchRepair } from './redis/search/repair.js';
import { WordIndex } from './redis/search/word-index.js';

export interface PostgresMessagingOptions {
  /** The pool of the home. */
  sql: PostgresSql;
  /** The connection for signs of life: the pool may be busy. */
  beats: PostgresSql;
  /** The writer of the home. */
  writer: PostgresWriter;
  feed: PostgresFeed;
  /** One URL, or the URLs of a cluster, separated by commas. */
  redis: string;
  /** The id of this Stoa. A Redis belongs to one Stoa. */
  storeId: string;
  limits: Limits;
  nowMs: () => number;
  onError: (error: unknown, about: string) => void;
  /** The agents of the registry, for whom the server keeps identities. */
  agents: KnownAgents;
  /** A move only reads: there is no background work then. */
  isOnlyRead: boolean;
}

export interface MessagingParts {
  readonly redis: RedisConnection;
  readonly keys: RedisKeys;
  readonly identities: PostgresIdentities;
  readonly rooms: PostgresRooms;
  readonly messages: RedisMessages;
  readonly inboxes: RedisInboxes;
  readonly guards: RedisGuards;
  readonly requestRates: RedisRequestRates;
  readonly notices: Notices;
  readonly feedOutbox: FeedOutbox;
  readonly searchRepair: SearchRepair;
  readonly probes: Readonly<Record<'postgres' | 'redis', HealthProbe>>;
}

export function messagingParts(redis: RedisConnection, options: PostgresMessagingOptions): MessagingParts {
  const { sql, beats, feed, limits, nowMs, onError } = options;
  const origin = randomUUID();
  const keys = new RedisKeys(redis.isCluster);
  const stored = { redis, keys, limits, nowMs };
  const notices = new Notices({ redis, origin, onError });
  const scores = new MessageScores(stored);
  const words = new WordIndex({ ...stored, onError });
  const messages = new RedisMessages({ ...stored, scores, words, origin, onError });
  const rooms = roomsWith({ messages, notices }, options);
  const guards = new RedisGuards(redis, keys, limits, nowMs);
  const feedOutbox = new FeedOutbox({
    redis,
    sql,
    onAdded: () => feed.committed(),
    scan: (pattern) => guards.scan(pattern),
    onError,
  });
  feed.settleFirst(() => feedOutbox.settled());
  return {
    redis,
    keys,
    identities: new PostgresIdentities(sql, {
      agents: options.agents,
      nowMs,
      limits,
      onChanged: (id) => notices.identityChanged(id),
    }),
    rooms,
    messages,
    inboxes: new RedisInboxes({ ...stored, scores, origin }),
    guards,
    requestRates: new RedisRequestRates({ redis, keys, perMinute: limits.requestsPerMinuteMax, onError }),
    notices,
    feedOutbox,
    searchRepair: new SearchRepair({ sql, limits, rooms, messages, words, guards, onError }),
    probes: {
      postgres: new HealthProbe('PostgreSQL', () => checkWritable(beats), limits),
      redis: new HealthProbe('Redis', () => checkRedisWritable(redis), limits),
    },
  };
}

/** The rooms, whose messages live and end with them. */
function roomsWith(
  { messages, notices }: Pick<MessagingParts, 'messages' | 'notices'>,
  { sql, nowMs, limits, onError }: PostgresMessagingOptions,
): PostgresRooms {
  /** For work after a commit: the write has succeeded. */
  const reported = (work: Promise<void>, about: string): Promise<void> =>
    work.catch((error: unknown) => onError(error, about));
  return new PostgresRooms(sql, {
    nowMs,
    limits,
    onExtending: (room) => messages.keepAtLeast(room),
    onUpdated: (room) => reported(messages.keepAsLong(room), 'keeping messages of a room longer'),
    onDeleted: async (id) => {
      await reported(messages.forget(id), 'removing the messages of a deleted room; they expire');
      await notices.roomRemoved(id);
    },
  });
}
