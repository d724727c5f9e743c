/** Two servers on one PostgreSQL and Redis. */
import { sharedPostgres } from '../../../servers/shared.js';
import { Agent, MessagingServer, roomy } from '../../../messaging/kit.js';
import { openOn } from './open-messaging.js';

const settings = { trustedProxies: ['127.0.0.0/8'] };

export function open(
  postgres: string,
  redisUrl: string,
  limits: Partial<
    typeof roomy & {
      streamHeartbeatSeconds: number;
      channelReadsPerMinuteMax: number;
      statementSecondsMax: number;
      healthSecondsMax: number;
    }
  > = {},
): Promise<MessagingServer> {
  return openOn(postgres, redisUrl, { limits, messagingSettings: settings });
}

/** Runs the work with two servers on one PostgreSQL and Redis, and closes them afterwards. */
export async function withTwo(
  redisUrl: string,
  work: (one: MessagingServer, two: MessagingServer) => Promise<void>,
  limits = {},
): Promise<void> {
  const { url } = await sharedPostgres();
  const servers = await Promise.all([open(url, redisUrl, limits), open(url, redisUrl, limits)]);
  try {
    await work(...(servers as [MessagingServer, MessagingServer]));
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
}

/** The same agent, connected to another server. */
export function at(server: MessagingServer, agent: Agent): Agent {
  const same = new Agent(server, agent.seed);
  same.id = agent.id;
  return same;
}
