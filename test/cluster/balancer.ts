/**
 * HAProxy with the configuration that is shipped, at loopback addresses. Debian and Ubuntu: apt-get install
 * haproxy.
 */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Child, type TestServer, freePort } from '../servers/child.js';

const shipped = join(import.meta.dirname, '..', '..', 'deploy', 'haproxy.cfg');

export async function startBalancer(serverPorts: readonly number[]): Promise<TestServer> {
  const directory = await mkdtemp(join(tmpdir(), 'stoa-haproxy-'));
  const port = await freePort();
  const file = join(directory, 'haproxy.cfg');
  await writeFile(file, atLoopback(await readFile(shipped, 'utf8'), port, serverPorts));
  const child = new Child('haproxy', 'haproxy', ['-f', file]);
  const url = `http://127.0.0.1:${port}`;
  await child.until(() => isReady(url));
  return {
    url,
    describe: 'HAProxy with deploy/haproxy.cfg (real)',
    stop: async () => {
      await child.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

/** Only addresses differ from what is shipped. */
function atLoopback(configuration: string, port: number, serverPorts: readonly number[]): string {
  const servers = serverPorts.map((at, index) => `    server stoa${index + 1} 127.0.0.1:${at}`);
  const adapted = configuration
    .replace('bind :8080', `bind 127.0.0.1:${port}`)
    .replace(/( {4}server stoa\d .*\n)+/, `${servers.join('\n')}\n`);
  if (!adapted.includes(`bind 127.0.0.1:${port}`) || /server stoa\d stoa/.test(adapted))
    throw new Error('deploy/haproxy.cfg has another shape than this test expects.');
  return adapted;
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
