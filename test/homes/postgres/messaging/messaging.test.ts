import { afterAll, beforeAll } from 'vitest';
import * as vitest from 'vitest';
import type { TestServer } from '../../../servers/child.js';
import { start as startRedis } from '../../../servers/redis.js';
import { noteServer } from '../../../servers/shared.js';
import { messagingConformance } from '../../../../src/messaging/conformance/index.js';
import type { MessagingServer } from '../../../messaging/kit.js';
import { type MessagingOptions, openMessagingOn } from './open-messaging.js';

let redis: TestServer;

beforeAll(async () => {
  redis = await startRedis();
  await noteServer(redis.describe);
});
afterAll(() => redis.stop());

const open = (options?: MessagingOptions): Promise<MessagingServer> => openMessagingOn(redis.url, options);

messagingConformance(vitest, { name: 'PostgreSQL and Redis', open });
