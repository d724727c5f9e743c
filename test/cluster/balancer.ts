/**
 * HAProxy or nginx with the configuration that is shipped, at loopback addresses. Debian and Ubuntu: apt-get install
 * haproxy nginx-light.
 */
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, type TestServer, freePort } from '../servers/child.js';

export type BalancerKind = 'haproxy' | 'nginx';

interface Balancer {
  readonly describe: string;
  readonly file: string;
  args(file: string, directory: string): string[];
  /** The shipped configuration with other addresses, and nothing else changed. */
  atLoopback(shipped: string, port: number, serverPorts: readonly number[], directory: string): string;
}

const balancers: Readonly<Record<BalancerKind, Balancer>> = {
  haproxy: {
    describe: 'HAProxy with deploy/haproxy.cfg (real)',
    file: 'haproxy.cfg',
    args: (file) => ['-f', file],
    atLoopback: (shipped, port, serverPorts) =>
      shipped
        .replace('bind :8080', `bind 127.0.0.1:${port}`)
        .replace(
          /( {4}server stoa\d .*\n)+/,
          serverPorts.map((at, index) => `    server stoa${index + 1} 127.0.0.1:${at}\n`).join(''),
        ),
  },
  nginx: {
    describe: 'nginx with deploy/nginx.conf (real)',
    file: 'nginx.conf',
    args: (file, directory) => {
      const globals = `daemon off; pid ${join(directory, 'nginx.pid')};`;
      return ['-c', file, '-p', directory, '-e', 'stderr', '-g', globals];
    },
    atLoopback: (shipped, port, serverPorts, directory) =>
      shipped
        .replace('listen 8080', `listen 127.0.0.1:${port}`)
        .replace(
          /( {8}server )stoa\d:7862( .*\n)(?: {8}server stoa.*\n)*/,
          (_, before: string, after: string) =>
            serverPorts.map((at) => `${before}127.0.0.1:${at}${after}`).join(''),
        )
        // Without root the default places cannot be written.
        .replace(
          'http {\n',
          `http {\n${['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
            .map((kind) => `    ${kind}_temp_path ${join(directory, kind)};\n`)
            .join('')}`,
        ),
  },
};

export async function startBalancer(kind: BalancerKind, serverPorts: readonly number[]): Promise<TestServer> {
  const { describe, file: name, args, atLoopback } = balancers[kind];
  const directory = await mkdtemp(join(tmpdir(), `stoa-${kind}-`));
  // The workers of nginx are another user.
  await chmod(directory, 0o755);
  const port = await freePort();
  const shipped = await readFile(join(import.meta.dirname, '..', '..', 'deploy', name), 'utf8');
  const adapted = atLoopback(shipped, port, serverPorts, directory);
  if (!adapted.includes(`127.0.0.1:${port}`) || adapted.includes(':7862'))
    throw new Error(`deploy/${name} has another shape than this test expects.`);
  const file = join(directory, name);
  await writeFile(file, adapted);
  const child = new Child(kind, kind, args(file, directory));
  const url = `http://127.0.0.1:${port}`;
  await child.until(() => isReady(url));
  return {
    url,
    describe,
    stop: async () => {
      await child.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

export async function isReady(url: string): Promise<boolean> {
  try {
    const answer = await fetch(`${url}/readyz`, { signal: AbortSignal.timeout(2_000) });
    await answer.text();
    return answer.ok;
  } catch {
    // It does not listen yet.
    return false;
  }
}
