/** A real Redis: one server, or a cluster of three masters. */
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { Child, type HaltingServer, type TestServer, freePort } from './child.js';

/** The bus of a cluster listens 10,000 above the port. */
const clusterPortMax = 55_535;
const slots = 16_384;
const startsMax = 5;

/** One server that syncs every write. It is stopped without warning, as by a crash. */
export async function start(extra: readonly string[] = []): Promise<HaltingServer> {
  const version = installedVersion();
  const directory = await mkdtemp(join(tmpdir(), 'stoa-redis-'));
  const synced = ['--appendonly', 'yes', '--appendfsync', 'always', '--databases', '1000', ...extra];
  const { port, child } = await startNode(directory, undefined, synced);
  let server = child;
  return {
    url: `redis://127.0.0.1:${port}`,
    describe: `Redis ${version} (real)`,
    halt: () => server.stop('SIGKILL'),
    resume: async () => {
      ({ child: server } = await startNode(directory, undefined, [...synced, '--port', String(port)]));
    },
    stop: async () => {
      await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Takes every key away, of one server or of all masters of a cluster: a Redis belongs to one Stoa. */
export async function emptyRedis(url: string): Promise<void> {
  for (const node of url.split(',')) {
    const client = new Redis(node);
    await client.flushall();
    client.disconnect();
  }
}

/** Three masters that share the slots; the URL lists all of them, separated by commas. */
export async function startCluster(): Promise<TestServer> {
  const version = installedVersion();
  const started = await Promise.allSettled(
    [0, 1, 2].map(async () => {
      const directory = await mkdtemp(join(tmpdir(), 'stoa-redis-'));
      const { port, child } = await startNode(directory, clusterPortMax, [
        '--cluster-enabled',
        'yes',
        '--cluster-node-timeout',
        '5000',
        '--appendonly',
        'yes',
      ]);
      return { directory, port, child };
    }),
  );
  const nodes = started.flatMap((node) => (node.status === 'fulfilled' ? [node.value] : []));
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map(({ child }) => child.stop()));
    await Promise.all(nodes.map(({ directory }) => rm(directory, { recursive: true, force: true })));
  };
  try {
    const failed = started.find((node) => node.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
    const [first] = nodes;
    if (first === undefined) throw new Error('The cluster has no nodes.');
    for (const [index, node] of nodes.entries()) {
      const from = Math.ceil((index * slots) / nodes.length);
      const to = Math.ceil(((index + 1) * slots) / nodes.length) - 1;
      command(node.port, 'CLUSTER', 'ADDSLOTSRANGE', String(from), String(to));
      command(node.port, 'CLUSTER', 'SET-CONFIG-EPOCH', String(index + 1));
      if (node !== first) command(first.port, 'CLUSTER', 'MEET', '127.0.0.1', String(node.port));
    }
    for (const node of nodes) {
      await node.child.until(async () => {
        const info = command(node.port, 'CLUSTER', 'INFO');
        return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodes.length}`);
      });
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    url: nodes.map(({ port }) => `redis://127.0.0.1:${port}`).join(','),
    describe: `Redis ${version} cluster of three masters (real)`,
    stop,
  };
}

/**
 * Retried if it ends at once: the port may be in use by now, and the port of a cluster's bus is not checked.
 */
async function startNode(
  directory: string,
  portMax: number | undefined,
  args: readonly string[],
): Promise<{ port: number; child: Child }> {
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort(portMax);
    const child = new Child('redis-server', 'redis-server', [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--dir',
      directory,
      '--save',
      '',
      '--daemonize',
      'no',
      ...args,
    ]);
    try {
      await child.until(async () => child.output.includes('Ready to accept connections'));
      return { port, child };
    } catch (error) {
      if (attempt === startsMax || !child.hasEnded) throw error;
    }
  }
}

function command(port: number, ...words: string[]): string {
  const answer = execFileSync('redis-cli', ['-p', String(port), ...words], { encoding: 'utf8' });
  if (/^(ERR|\(error\))/.test(answer)) throw new Error(`redis-cli ${words.join(' ')}: ${answer}`);
  return answer;
}

function installedVersion(): string {
  try {
    const line = execFileSync('redis-server', ['--version'], { encoding: 'utf8' });
    return /v=([\d.]+)/.exec(line)?.[1] ?? 'of unknown version';
  } catch (error) {
    throw new Error('redis-server is not installed. Debian and Ubuntu: apt-get install redis-server.', {
      cause: error,
    });
  }
}
