/**
 * One Stoa on many servers: PostgreSQL, Redis, three servers as processes and a balancer, all of which can
 * fail.
 */
import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, type HaltingServer, type TestServer, freePort } from '../servers/child.js';
import { start as startPostgres } from '../servers/postgres.js';
import { start as startRedis } from '../servers/redis.js';
import { type BalancerKind, isReady, startBalancer } from './balancer.js';

/** Short, so that leases lapse while the test runs. */
export const leaseSeconds = 2;
export const leaseGraceSeconds = 1;

const serverCount = 3;
const startsMax = 5;

export interface Fleet {
  readonly balancerUrl: string;
  readonly serverUrls: readonly string[];
  readonly token: string;
  readonly describe: readonly string[];
  /** Ends a server with kill -9 and starts another in its place, which is not waited for. */
  replace(server: number): Promise<void>;
  restartPostgres(): Promise<void>;
  restartRedis(): Promise<void>;
  /** Until every server and the balancer answer. */
  ready(): Promise<void>;
  stop(): Promise<void>;
}

export async function startFleet(program: string, kind: BalancerKind): Promise<Fleet> {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-cluster-'));
  const [postgres, redis] = await Promise.all([startPostgres(), startRedis()]);
  const token = randomBytes(32).toString('hex');
  const environment = {
    STOA_SECRET_KEYS: randomBytes(32).toString('hex'),
    STOA_OPERATOR_TOKEN: token,
    STOA_LOG_LEVEL: 'warn',
    STOA_RATE_LIMIT_ALLOW: '127.0.0.0/8',
    STOA_TRUSTED_PROXIES: '127.0.0.1',
    STOA_LIMIT_LEASE_SECONDS: String(leaseSeconds),
    STOA_LIMIT_LEASE_GRACE_SECONDS: String(leaseGraceSeconds),
    STOA_LIMIT_POSTS_PER_MINUTE_MAX: '1000000',
    STOA_LIMIT_MESSAGE_BYTES_PER_MINUTE_MAX: '1000000000',
  };
  const ports = await Promise.all(Array.from({ length: serverCount }, () => freePort()));
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('STOA_'));
  const run = (port: number): Child =>
    new Child(
      `stoa up on port ${port}`,
      process.execPath,
      [program, 'up', '--postgres', postgres.url, '--redis', redis.url, '--port', String(port)],
      { cwd: directory, env: { ...Object.fromEntries(inherited), ...environment } },
    );
  // All at once: one of them makes the tables, the others wait.
  const servers = ports.map(run);
  const serverUrls = ports.map((port) => `http://127.0.0.1:${port}`);
  let balancer: TestServer | undefined;

  const stop = async (): Promise<void> => {
    await balancer?.stop();
    await Promise.all(servers.map((server) => server.stop('SIGKILL')));
    await Promise.all([postgres.stop(), redis.stop()]);
    await rm(directory, { recursive: true, force: true });
  };
  /**
   * A server that starts while its database is away ends, and is started again, as a service manager does.
   */
  const serverReady = async (index: number, port: number): Promise<void> => {
    for (let starts = 1; ; starts += 1) {
      const server = servers[index];
      try {
        await server?.until(() => isReady(serverUrls[index] ?? ''));
        return;
      } catch (error) {
        if (server?.hasEnded !== true || starts >= startsMax) throw error;
        servers[index] = run(port);
      }
    }
  };
  const ready = async (): Promise<void> => {
    await Promise.all(ports.map((port, index) => serverReady(index, port)));
  };
  try {
    await ready();
    balancer = await startBalancer(kind, ports);
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    balancerUrl: balancer.url,
    serverUrls,
    token,
    describe: [postgres, redis, balancer].map((server) => server.describe),
    replace: async (index) => {
      const [server, port] = [servers[index], ports[index]];
      if (server === undefined || port === undefined) throw new Error(`There is no server ${index}.`);
      await server.stop('SIGKILL');
      servers[index] = run(port);
    },
    restartPostgres: () => restart(postgres),
    restartRedis: () => restart(redis),
    ready,
    stop,
  };
}

async function restart(server: HaltingServer): Promise<void> {
  await server.halt();
  await server.resume();
}
