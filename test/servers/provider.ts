/**
 * Provides shared servers: one small HTTP server in the runner's own process. A suite asks it by name, the
 * first to ask waits for the start, and all are ended with the run.
 */
import { execFile } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { TestProject } from 'vitest/node';
import type { TestServer } from './child.js';

declare module 'vitest' {
  interface ProvidedContext {
    sharedServersUrl: string;
  }
}

export const sharedServers = {
  browser: async () => (await import('./browser.js')).start(),
  postgres: async () => (await import('./postgres.js')).start(),
  pgvector: async () => (await import('./pgvector.js')).start(),
  redis: async () => (await import('./redis.js')).start(),
  'redis-cluster': async () => (await import('./redis.js')).startCluster(),
  couchdb: async () => (await import('./couchdb.js')).start(),
  dynamodb: async () => (await import('./dynamodb.js')).start(),
  firestore: async () => (await import('./firestore.js')).startGoogleEmulator(),
} as const satisfies Record<string, () => Promise<TestServer>>;

export type SharedServerName = keyof typeof sharedServers;

/** What `npm test` prints at its end: on which server each suite ran. */
export const usagePath = join(dirname(dirname(fileURLToPath(import.meta.url))), 'report', 'servers.json');

const repository = dirname(dirname(dirname(fileURLToPath(import.meta.url))));

/** Compiles once a run, when the first suite that runs the program asks; answers its path. */
async function buildProgram(): Promise<string> {
  await promisify(execFile)(process.execPath, [join(repository, 'scripts', 'build.js')]);
  return join(repository, 'bundle', 'main.cjs');
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const running = new Map<SharedServerName, Promise<TestServer>>();
  let program: Promise<string> | undefined;
  const suitesOf = new Map<string, Set<string>>();
  const note = (describe: string, suite: string): void => {
    suitesOf.set(describe, (suitesOf.get(describe) ?? new Set()).add(suite));
  };

  const provider = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', 'http://provider');
    const suite = searchParams.get('suite') ?? 'unknown';
    const answer = async (): Promise<{ url: string; describe: string } | null> => {
      const described = searchParams.get('describe');
      if (described !== null) {
        note(described, suite);
        return null;
      }
      if (pathname === '/program') {
        program ??= buildProgram();
        return { url: await program, describe: 'the built program' };
      }
      const name = pathname.slice(1) as SharedServerName;
      const start = sharedServers[name];
      if (start === undefined) throw new Error(`There is no test server named "${name}".`);
      let server = running.get(name);
      if (server === undefined) {
        server = start();
        running.set(name, server);
      }
      const { url, describe } = await server;
      note(describe, suite);
      return { url, describe };
    };
    answer().then(
      (body) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(body)),
      (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.message : String(error)),
    );
  });
  await new Promise<void>((resolve) => provider.listen(0, '127.0.0.1', resolve));
  const { port } = provider.address() as AddressInfo; // A TCP server that listens has an AddressInfo.
  project.provide('sharedServersUrl', `http://127.0.0.1:${port}`);

  return async () => {
    provider.close();
    provider.closeAllConnections();
    const started = await Promise.allSettled(running.values());
    const stopped = await Promise.allSettled(
      started.map((result) => (result.status === 'fulfilled' ? result.value.stop() : undefined)),
    );
    const usage = [...suitesOf].map(([describe, suites]) => ({ describe, suites: [...suites].toSorted() }));
    await mkdir(dirname(usagePath), { recursive: true });
    await writeFile(usagePath, JSON.stringify(usage, null, 2));
    for (const result of stopped) if (result.status === 'rejected') throw result.reason;
  };
}
