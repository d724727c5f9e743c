/** A messaging server on PostgreSQL and a Redis of the suite. */
import { afterAll, beforeAll, beforeEach } from 'vitest';
import type { HaltingServer } from '../../../servers/child.js';
import { MessagingServer, roomy } from '../../../messaging/kit.js';
import { emptyRedis, start as startRedis } from '../../../servers/redis.js';
import { noteServer, sharedKeys, sharedPostgres } from '../../../servers/shared.js';

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

/** One Redis for the suite, empty for each test. */
export function useRedis(): { readonly url: string } {
  let redis: HaltingServer;
  beforeAll(async () => {
    redis = await startRedis();
    await noteServer(redis.describe);
  });
  beforeEach(() => emptyRedis(redis.url));
  afterAll(() => redis.stop());
  return {
    get url() {
      return redis.url;
    },
  };
}

/** A server on databases that exist. */
export function openOn(
  postgres: string,
  redisUrl: string,
  options: MessagingOptions = {},
): Promise<MessagingServer> {
  return MessagingServer.open({
    postgres,
    redis: redisUrl,
    secretKeys: sharedKeys,
    onError: () => undefined,
    ...options,
    limits: { ...roomy, ...options.limits },
  });
}
