import { afterAll, beforeAll } from 'vitest';
import * as vitest from 'vitest';
import type { TestServer } from '../../../servers/child.js';
import { emptyRedis, start as startRedis } from '../../../servers/redis.js';
import { noteServer, sharedPostgres, sharedKeys } from '../../../servers/shared.js';
import { messagingConformance } from '../../../../src/messaging/conformance/index.js';
import { MessagingServer, roomy } from '../../../messaging/kit.js';

let redis: TestServer;

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
});
afterAll(() => redis.stop());

/** Each server of the suite starts with an empty PostgreSQL and Redis. */
async function open(options: Parameters<typeof MessagingServer.open>[0] = {}): Promise<MessagingServer> {
  const postgres = await sharedPostgres();
  await emptyRedis(redis.url);
  return MessagingServer.open({
    limits: roomy,
    postgres: postgres.url,
    secretKeys: sharedKeys,
    redis: redis.url,
    onError: () => undefined,
    ...options,
  });
}

messagingConformance(vitest, { name: 'PostgreSQL and Redis', open });
