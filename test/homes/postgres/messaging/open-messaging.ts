/** A messaging server on PostgreSQL and a Redis of the suite. */
import { MessagingServer, roomy } from '../../../messaging/kit.js';
import { emptyRedis } from '../../../servers/redis.js';
import { sharedKeys, sharedPostgres } from '../../../servers/shared.js';

export type MessagingOptions = Parameters<typeof MessagingServer.open>[0];

/** Each server starts with an empty PostgreSQL and Redis. */
export async function openMessagingOn(
  redisUrl: string,
  options: MessagingOptions = {},
): Promise<MessagingServer> {
  const postgres = await sharedPostgres();
  await emptyRedis(redisUrl);
  return MessagingServer.open({
    limits: roomy,
    postgres: postgres.url,
    secretKeys: sharedKeys,
    redis: redisUrl,
    onError: () => undefined,
    ...options,
  });
}
