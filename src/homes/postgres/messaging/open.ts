/** Opens messaging on PostgreSQL and Redis, and finds out how durable Redis is. */
import { PostgresMessaging } from './messaging.js';
import type { PostgresMessagingOptions } from './parts.js';
import { type RedisConnection, claimRedis, closeRedis, openRedis } from './redis/connection.js';
import { migrateMessaging } from './schema.js';

/** Creates missing tables, connects to Redis and starts the background work. */
export async function openPostgresMessaging(options: PostgresMessagingOptions): Promise<PostgresMessaging> {
  await migrateMessaging(options.sql);
  const redis = await openRedis(options.redis, options.onError);
  try {
    await claimRedis(redis, options.storeId);
    const durable = await isSynced(redis);
    if (!durable)
      options.onError(
        new Error('Redis is not set to "appendfsync always"'),
        'messages may be lost when the machine of Redis fails',
      );
    const messaging = new PostgresMessaging(redis, durable, options);
    if (!options.isOnlyRead) await messaging.start();
    return messaging;
  } catch (error) {
    closeRedis(redis);
    throw error;
  }
}

/**
 * True if Redis syncs every write to disk before it answers. False if the server does not show its settings.
 */
async function isSynced({ commands }: RedisConnection): Promise<boolean> {
  try {
    const [append, sync] = await Promise.all([
      commands.config('GET', 'appendonly'),
      commands.config('GET', 'appendfsync'),
    ]);
    return String(append).includes('yes') && String(sync).includes('always');
  } catch {
    return false;
  }
}
