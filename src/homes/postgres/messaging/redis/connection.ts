/** The connection to Redis: one server or a cluster. Errors of Redis become errors of Stoa. */
import type { Cluster, Redis } from 'ioredis';
import { StoaError, messageOf } from '../../../../core/errors.js';
import { importOptional } from '../../../../core/optional-package.js';
import { type ScriptName, scripts } from './scripts.js';

export type RedisLike = Redis | Cluster;

/** A command fails after this time, so that requests do not queue up behind a hanging server. */
const commandTimeoutMs = 5_000;

const options = {
  // A command that Redis may have executed is never sent again: the caller gets an error.
  autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0,
  enableOfflineQueue: false,
  commandTimeout: commandTimeoutMs,
  connectTimeout: 5_000,
  retryStrategy: (attempt: number) => Math.min(50 * attempt, 1_000),
  // After a failover the old primary is read-only. A new connection resolves the name again and finds the new
  // one.
  reconnectOnError: (error: Error) => error.message.startsWith('READONLY'),
  // `Notices` subscribes again. The driver leaves the failure of its own second subscription unhandled, which would
  // end the process.
  autoResubscribe: false,
} as const;

export interface RedisConnection {
  /** On a cluster, keys have hash tags, and a command cannot use keys on several nodes. */
  isCluster: boolean;
  commands: RedisLike;
  /** A separate connection, because a subscribed connection cannot send other commands. */
  subscriber: RedisLike;
}

/** Several URLs, separated by commas, are a cluster. So is one URL with `?cluster=true`. */
export async function openRedis(
  urls: string,
  onError: (error: unknown, about: string) => void,
): Promise<RedisConnection> {
  const ioredis = await importOptional<typeof import('ioredis')>('ioredis', 6);
  const nodes = urls.split(',').map((url) => url.trim());
  const isCluster = nodes.length > 1 || /[?&]cluster=(1|true)\b/.test(nodes[0] ?? '');
  /**
   * Why the connection failed. The driver reports it only in the `error` event, not in the error of
   * `connect`.
   */
  let reason: unknown;
  const open = (extra: object): RedisLike => {
    const client = isCluster
      ? new ioredis.Cluster(
          nodes.map((node) => node.split('?')[0] as string),
          {
            redisOptions: { ...options, ...extra, lazyConnect: true },
            enableOfflineQueue: false,
            lazyConnect: true,
            ...extra,
            clusterRetryStrategy: options.retryStrategy,
          },
        )
      : new ioredis.Redis(nodes[0] as string, { ...options, lazyConnect: true, ...extra });
    // Without a listener a lost connection would end the process.
    client.on('error', (error: unknown) => {
      reason = error;
      onError(error, 'the connection to Redis');
    });
    return client;
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

/** Runs a script. If its number of keys is not fixed, the first argument is that number. */
export async function runScript(
  redis: RedisLike,
  name: ScriptName,
  args: readonly (string | number)[],
): Promise<unknown> {
  // `defineCommand` adds a method with the name of the script, which the types of ioredis do not have.
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

/** Runs commands and converts errors of Redis with `redisError`. */
export async function withRedis<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw redisError(error);
  }
}

function redisError(error: unknown): StoaError {
  if (error instanceof StoaError) return error;
  // Redis refuses a command or a script before its first write, so nothing was stored.
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
  const { about, fix } = faultOf(messageOf(error));
  return new StoaError('backend_unavailable', about, { fix, cause: error });
}

/**
 * A sentence for each error text of Redis and its driver, whose own words do not help the caller of a
 * request.
 */
const faults: readonly { words: RegExp; about: string; fix: string }[] = [
  {
    words: /Command timed out/,
    about: `Redis did not answer within ${commandTimeoutMs / 1_000} s. The outcome of the request is unknown.`,
    fix: 'Check the load of the Redis server and the network to it.',
  },
  {
    words:
      /isn't (writeable|ready)|ECONNREFUSED|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN|ETIMEDOUT|startup nodes|slots cache|master node/,
    about: 'Redis is not reachable.',
    fix: 'Check that the Redis server runs and can be reached.',
  },
  {
    words: /connection (is )?close|max retries per request|ECONNRESET|EPIPE|socket|disconnected/i,
    about: 'The connection to Redis was lost. The outcome of the request is unknown.',
    fix: 'Check that the Redis server runs and can be reached.',
  },
  {
    words: /\bREADONLY\b/,
    about: 'This Redis is a replica and refuses writes.',
    fix: 'Use the URL of the primary, or wait until the failover is done.',
  },
  {
    words: /\b(LOADING|CLUSTERDOWN|MASTERDOWN|TRYAGAIN)\b/,
    about: 'Redis is starting or changing its nodes.',
    fix: 'Try again shortly.',
  },
  {
    words: /\bMISCONF\b/,
    about: 'Redis refuses writes, because it cannot write to its disk.',
    fix: 'Read the log of the Redis server, and check its disk.',
  },
];

function faultOf(text: string): { about: string; fix: string } {
  return (
    faults.find(({ words }) => words.test(text)) ?? {
      about: `Redis reported: ${text}.`,
      fix: 'Read the log of the Redis server.',
    }
  );
}

/**
 * Throws if a node does not answer, or refuses writes: it is full, a replica, or cannot write to its disk. Redis
 * checks this before it runs a script with this first line. The script writes nothing.
 */
export async function checkRedisWritable({ commands }: RedisConnection): Promise<void> {
  const nodes = 'nodes' in commands ? commands.nodes('master') : [commands];
  // Between two attempts to connect the driver knows no node.
  if (nodes.length === 0) {
    const { about, fix } = faultOf('startup nodes');
    throw new StoaError('backend_unavailable', about, { fix });
  }
  await withRedis(() => Promise.all(nodes.map((node) => node.eval('#!lua\nreturn 1', 0))));
}

/** Has the id of the Stoa that uses this Redis. */
const storeKey = 'stoa:store';

/**
 * The id of the Stoa that uses this Redis, or null. Throws if it is another Stoa: two on one Redis would read
 * each other's messages.
 */
export async function redisOwner(
  { commands }: RedisConnection,
  storeId: string | undefined,
): Promise<string | null> {
  const owner = await withRedis(() => commands.get(storeKey));
  if (owner === null || owner === storeId) return owner;
  const here = storeId === undefined ? 'The database has no Stoa yet' : `This one is ${storeId}`;
  throw new StoaError('conflict', `This Redis belongs to another Stoa (${owner}). ${here}.`, {
    fix:
      'Use another Redis or another database number (redis://host/1).' +
      ` After a restore into a new database, delete the key "${storeKey}".`,
  });
}

/** Claims a Redis that no Stoa uses yet. Throws if another Stoa uses it. */
export async function claimRedis(redis: RedisConnection, storeId: string): Promise<void> {
  await withRedis(() => redis.commands.set(storeKey, storeId, 'NX'));
  await redisOwner(redis, storeId);
}
