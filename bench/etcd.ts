/** etcd as a reference for the data store: its JSON gateway over HTTP, with the durability that it has by default. */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Measured } from './http-load.js';
import { freePort } from './free-port.js';
import type { Request } from './wrk.js';

const startSecondsMax = 30;

export interface Etcd extends Measured {
  readonly version: string;
  stop(): Promise<void>;
}

/** Undefined if etcd is not installed. */
export async function startEtcd(directory: string): Promise<Etcd | undefined> {
  const { stdout, error } = spawnSync('etcd', ['--version'], { encoding: 'utf8' });
  if (error !== undefined) {
    process.stderr.write(
      'etcd is not installed, so its rows are left out. On Debian: apt install etcd-server\n',
    );
    return undefined;
  }
  const version = /etcd Version: (\S+)/.exec(stdout)?.[1] ?? 'unknown';
  const [clients, peers] = [`http://127.0.0.1:${await freePort()}`, `http://127.0.0.1:${await freePort()}`];
  const flags = {
    'data-dir': directory,
    'listen-client-urls': clients,
    'advertise-client-urls': clients,
    'listen-peer-urls': peers,
    'initial-advertise-peer-urls': peers,
    'initial-cluster': `default=${peers}`,
    'log-level': 'error',
  };
  const given = Object.entries(flags).map(([name, value]) => `--${name}=${value}`);
  const child = spawn('etcd', given, { stdio: 'ignore' });
  await waitUntilHealthy(child, clients);
  return {
    url: clients,
    version,
    cpuUs: () => cpuUsOf(child),
    stop: async () => {
      const ended = once(child, 'exit');
      child.kill();
      await ended;
    },
  };
}

export function etcdGet(key: string): Request {
  return { method: 'POST', path: '/v3/kv/range', body: JSON.stringify({ key: base64(key) }) };
}

export function etcdPut(key: string, value: string): Request {
  return {
    method: 'POST',
    path: '/v3/kv/put',
    body: JSON.stringify({ key: base64(key), value: base64(value) }),
  };
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

async function waitUntilHealthy(child: ChildProcess, url: string): Promise<void> {
  const endMs = Date.now() + startSecondsMax * 1_000;
  while (Date.now() < endMs && child.exitCode === null) {
    const isHealthy = await fetch(`${url}/health`).then(
      async (answer) => (await answer.text()).includes('true'),
      () => false, // It does not listen yet.
    );
    if (isHealthy) return;
    await sleep(50);
  }
  child.kill();
  throw new Error(`etcd is not healthy after ${startSecondsMax} seconds.`);
}

async function cpuUsOf({ pid }: ChildProcess): Promise<number> {
  const ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  // Field 2, the name, can contain spaces.
  const fields = (await readFile(`/proc/${pid}/stat`, 'utf8')).replace(/^.*\) /, '').split(' ');
  return ((Number(fields[11]) + Number(fields[12])) / ticksPerSecond) * 1_000_000;
}
