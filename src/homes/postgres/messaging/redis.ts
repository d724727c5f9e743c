/** Redis for messaging: one server or a cluster, faults in Stoa's own words, and the names of the keys. */
import type { Cluster, Redis } from 'ioredis';
import { StoaError, messageOf } from '../../../core/errors.js';
import type { RateKey } from '../../../messaging/port.js';
import { importOptional } from '../../../core/optional-package.js';
import { type ScriptName, scripts } from './scripts.js';

export type RedisLike = Redis | Cluster;

/** A command is given up after this, so that a stuck server is an error and not a queue. */
const commandTimeoutMs = 5_000;

const options = {
  // A command that may have been carried out is never sent again by itself: the caller gets an error.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  commandTimeout: commandTimeoutMs,
  connectTimeout: 5_000,
  retryStrategy: (attempt: number) => Math.min(50 * attempt, 1_000),
  // After a failover the name leads to another server, while the connection is to one that takes no writes any more.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
} as const;

export interface RedisConnection {
  /** True for a cluster: keys carry hash tags, and what lies on several nodes is several commands. */
  isCluster: boolean;
  commands: RedisLike;
  /** A connection of its own for news: a subscriber can do nothing else. */
  subscriber: RedisLike;
}

/** One URL is one server, unless it says it is part of a cluster; several, separated by commas, are a cluster. */
export async function openRedis(
  urls: string,
  onError: (error: unknown, about: string) => void,
): Promise<RedisConnection> {
  const ioredis = await importOptional<typeof import('ioredis')>('ioredis', 6);
  const nodes = urls.split(',').map((url) => url.trim());
  const isCluster = nodes.length > 1 || /[?&]cluster=(1|true)\b/.test(nodes[0] ?? '');
  /** The driver tells why a connection failed only here; `connect` says no more than that it is closed. */
  let reason: unknown;
  const open = (more: object): RedisLike => {
    const made = isCluster
      ? new ioredis.Cluster(
          nodes.map((node) => node.split('?')[0] as string),
          {
            redisOptions: { ...options, ...more, lazyConnect: true },
            enableOfflineQueue: false,
            lazyConnect: true,
            ...more,
            clusterRetryStrategy: options.retryStrategy,
          },
        )
      : new ioredis.Redis(nodes[0] as string, { ...options, lazyConnect: true, ...more });
    // Without a listener a lost connection would end the process.
    made.on('error', (error: unknown) => {
      reason = error;
      onError(error, 'the connection to Redis');
    });
    return made;
  };
  const commands = open({});
  const subscriber = open({
    enableOfflineQueue: true,
    maxRetriesPerRequest: null,
    commandTimeout: undefined,
  });
  try {
    await Promise.all([commands.connect(), subscriber.connect()]);
  } catch (error) {
    closeRedis({ commands, subscriber });
    throw redisError(reason ?? error);
  }
  for (const [name, { keys, lua }] of Object.entries(scripts))
    commands.defineCommand(name, { lua, ...(keys !== undefined && { numberOfKeys: keys }) });
  return { isCluster, commands, subscriber };
}

export function closeRedis({ commands, subscriber }: Pick<RedisConnection, 'commands' | 'subscriber'>): void {
  commands.disconnect();
  subscriber.disconnect();
}

/** Runs one of the scripts. Their number of keys is fixed, or comes first. */
export async function runScript(
  redis: RedisLike,
  name: ScriptName,
  args: readonly (string | number)[],
): Promise<unknown> {
  // `defineCommand` above adds a method of that name, which the types cannot know.
  const commands = redis as unknown as Record<
    ScriptName,
    (...given: (string | number)[]) => Promise<unknown>
  >;
  try {
    return await commands[name](...args);
  } catch (error) {
    throw redisError(error);
  }
}

/** Runs commands; whatever Redis does to them is `backend_unavailable`, never an answer. */
export async function withRedis<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw redisError(error);
  }
}

export function redisError(error: unknown): StoaError {
  if (error instanceof StoaError) return error;
  // Redis refuses a command or a script before its first write: nothing of it was stored.
  if (/\bOOM\b/.test(messageOf(error)))
    return new StoaError('disk_full', 'Redis is full: its maxmemory is used up. Nothing was stored.', {
      fix: 'Raise maxmemory of the Redis server, or keep messages for a shorter time.',
      cause: error,
    });
  if (/\b(NOAUTH|WRONGPASS|NOPERM)\b/.test(messageOf(error)))
    return new StoaError('invalid_config', `Redis refused the connection: ${messageOf(error)}.`, {
      fix: 'Check the user and the password in the URL of Redis.',
      cause: error,
    });
  return new StoaError('backend_unavailable', `Redis does not answer: ${messageOf(error)}.`, {
    fix: 'Check that the server runs and can be reached.',
    cause: error,
  });
}

/** Names the Stoa that a Redis belongs to. */
const storeKey = 'stoa:store';

/** Whose the Redis is, or null. Refuses another Stoa's: two on one Redis would read each other's messages. */
export async function redisOwner(
  { commands }: RedisConnection,
  storeId: string | undefined,
): Promise<string | null> {
  const owner = await withRedis(() => commands.get(storeKey));
  if (owner === null || owner === storeId) return owner;
  throw new StoaError(
    'conflict',
    `This Redis belongs to another Stoa (${owner}). ${storeId === undefined ? 'The database has none yet' : `This one is ${storeId}`}.`,
    {
      fix: `Use another Redis or another database number (redis://host/1). After a restore into a new database, delete the key "${storeKey}".`,
    },
  );
}

/** Takes a Redis that is nobody's. */
export async function claimRedis(redis: RedisConnection, storeId: string): Promise<void> {
  await withRedis(() => redis.commands.set(storeKey, storeId, 'NX'));
  await redisOwner(redis, storeId);
}

/**
 * The seed's names, to the byte. On a cluster the part that keys must share to lie on one node
 * stands in braces: `room:{id}:messages` with the braces in the name.
 */
export class RedisKeys {
  readonly #isCluster: boolean;

  constructor(isCluster: boolean) {
    this.#isCluster = isCluster;
  }

  #tag(id: string): string {
    return this.#isCluster ? `{${id}}` : id;
  }

  messages(roomId: string): string {
    return `room:${this.#tag(roomId)}:messages`;
  }

  /** The room's newest time, so that a deleted message's time is not given out again. */
  roomClock(roomId: string): string {
    return `room:${this.#tag(roomId)}:clock`;
  }

  /** The running total, on its way to PostgreSQL. */
  roomCount(roomId: string): string {
    return `room:${this.#tag(roomId)}:count`;
  }

  /** Messages of which not every word is known to be in the search; on a cluster only. */
  unindexed(roomId: string): string {
    return `room:${this.#tag(roomId)}:${unindexedPart}`;
  }

  /** Ids of a room or an inbox whose own time is not their score, with their scores; beside it, how far it was read for them. */
  places(list: string): { index: string; readUpTo: string } {
    return { index: `${list}:places`, readUpTo: `${list}:places:read` };
  }

  /** What the change feed has not heard of yet: one list, or on a cluster a list on the node of each room. */
  roomNotes(roomId: string): string {
    return this.#isCluster ? `room:{${roomId}}:${notesPart}` : notesKey;
  }

  inboxNotes(agentId: string): string {
    return this.#isCluster ? `dm:{${agentId}}:${notesPart}` : notesKey;
  }

  thread(roomId: string, rootId: string): string {
    return `room:${this.#tag(roomId)}:thread:${rootId}`;
  }

  inbox(agentId: string): string {
    return `dm:${this.#tag(agentId)}:inbox`;
  }

  inboxClock(agentId: string): string {
    return `dm:${this.#tag(agentId)}:clock`;
  }

  acknowledged(agentId: string): string {
    return `dm:${this.#tag(agentId)}:acked`;
  }

  /** What was not acknowledged. It is made of the inbox where it is missing. */
  pending(agentId: string): string {
    return `dm:${this.#tag(agentId)}:pending`;
  }

  /** Under which id and time a message that a commit had promised was posted; it lies with its room. */
  roomDelivery(roomId: string, delivery: string): string {
    return `room:${this.#tag(roomId)}:delivery:${delivery}`;
  }

  inboxDelivery(agentId: string, delivery: string): string {
    return `dm:${this.#tag(agentId)}:delivery:${delivery}`;
  }

  word(word: string): string {
    return `search:words:${word}`;
  }

  nonce(agentId: string, nonce: string): string {
    return `nonce:${agentId}:${nonce}`;
  }

  /** The seed's name with the endpoint in it, so that one busy endpoint does not use up another's budget. */
  rate(scope: RateKey['scope'], subject: string, endpoint: string, windowSeconds: number): string {
    return `ratelimit:${scope}:${subject}:${endpoint}:${windowSeconds}`;
  }

  bytes(agentId: string): string {
    return `msgbytes:${agentId}`;
  }

  violations(address: string): string {
    return `violations:ip:${address}`;
  }

  blocked(address: string): string {
    return `${blockedPrefix}${address}`;
  }
}

export const blockedPrefix = 'blocked:ip:';
export const unindexedPart = 'unindexed';
export const notesPart = 'notes';
export const notesKey = 'stoa:notes';
/** Held by the server that looks for messages which are missing from the search, so that the others need not. */
export const searchRepairKey = 'search:repair';
