/** A separate Redis on a free port that waits for the disk at every write, and Redis's own benchmark. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, rm } from 'node:fs/promises';
import { promisify } from 'node:util';
import { freePort } from './free-port.js';

export interface Redis {
  url: string;
  setRate(options: { writes: number; clients: number; valueBytes: number; keys: number }): Promise<number>;
  stop(): Promise<void>;
}

export async function startRedis(directory: string): Promise<Redis> {
  await rm(directory, { recursive: true, force: true });
  await mkdir(directory, { recursive: true });
  const port = await freePort();
  const options = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    '--dir',
    directory,
    '--save',
    '',
    '--appendonly',
    'yes',
    '--appendfsync',
    'always',
    '--auto-aof-rewrite-percentage',
    '0',
  ];
  const server = spawn('redis-server', options, { stdio: ['ignore', 'pipe', 'inherit'] });
  const exited = once(server, 'exit');
  await new Promise<void>((resolve, reject) => {
    server.on('error', reject);
    server.stdout.on('data', (chunk: Buffer) => {
      if (chunk.includes('Ready to accept connections')) resolve();
    });
    void exited.then(() => reject(new Error('redis-server ended before it was ready')));
  });
  return {
    url: `redis://127.0.0.1:${port}`,
    setRate: async ({ writes, clients, valueBytes, keys }) => {
      const { stdout } = await promisify(execFile)('redis-benchmark', [
        '-p',
        String(port),
        '-t',
        'set',
        '-n',
        String(writes),
        '-c',
        String(clients),
        '-d',
        String(valueBytes),
        '-r',
        String(keys),
        '--csv',
      ]);
      const line = stdout.split('\n').find((text) => text.startsWith('"SET"'));
      return Number(line?.split(',')[1]?.replaceAll('"', ''));
    },
    stop: async () => {
      server.kill('SIGTERM');
      await exited;
    },
  };
}
