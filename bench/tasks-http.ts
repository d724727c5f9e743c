/** Claims over HTTP against a bare Fastify route that answers the same bytes; each server has a process of its own. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type Socket, createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { byTurns } from './frame.js';

const roundMs = 1_000;
const turns = 7;
const tasks = 120_000;

interface Server {
  port: number;
  path: string;
  token: string;
  body: string;
}

export async function claimsOverHttp(workers: number): Promise<{ ours: number; reference: number }> {
  const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
  const children: ChildProcess[] = [];
  try {
    const stoa = await start(children, 'stoa', data);
    const bare = await start(children, 'bare', JSON.stringify(stoa));
    return await byTurns(turns, () => load(stoa, workers), () => load(bare, workers));
  } finally {
    for (const child of children) child.kill();
    await rm(data, { recursive: true, force: true });
  }
}

async function start(children: ChildProcess[], kind: string, argument: string): Promise<Server> {
  const child = fork(fileURLToPath(import.meta.url), ['--serve', kind, argument]);
  children.push(child);
  const [server] = (await once(child, 'message')) as [Server];
  return server;
}

/** Each worker has a connection and one request at a time on it. Answers a second. */
async function load({ port, path, token }: Server, workers: number): Promise<number> {
  const request = Buffer.from(
    `POST ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nauthorization: Bearer ${token}\r\nstoa-user: bench\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}`,
  );
  const startedMs = performance.now();
  const counts = await Promise.all(Array.from({ length: workers }, () => work(createConnection(port, '127.0.0.1'), request, startedMs + roundMs)));
  return (counts.reduce((sum, count) => sum + count, 0) / (performance.now() - startedMs)) * 1_000;
}

function work(socket: Socket, request: Buffer, untilMs: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let count = 0;
    let received = '';
    socket.setNoDelay(true);
    socket.on('error', reject);
    socket.on('connect', () => socket.write(request));
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      const head = received.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(received)?.[1] ?? NaN);
      if (head === -1 || received.length < head + 4 + length) return;
      if (!received.startsWith('HTTP/1.1 200')) {
        reject(new Error(received.slice(0, 200)));
        return;
      }
      count += 1;
      received = '';
      if (performance.now() < untilMs) socket.write(request);
      else socket.end(() => resolve(count));
    });
  });
}

async function serveStoa(data: string): Promise<Server> {
  const { close, openFilled } = await import('./tasks-set.js');
  const set = await openFilled(data, 'lmdb', tasks);
  const path = `/v1/projects/${set.projectId}/tasks/claim`;
  await close(set);
  const { openStoa } = await import('../src/index.js');
  const { createApp } = await import('../src/server/app.js');
  const stoa = await openStoa({ data });
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  const answer = await fetch(url + path, { method: 'POST', headers: { authorization: `Bearer ${stoa.operatorToken}`, 'stoa-user': 'bench' } });
  return { port: Number(new URL(url).port), path, token: stoa.operatorToken, body: await answer.text() };
}

async function serveBare({ path, token, body }: Server): Promise<Server> {
  const { fastify } = await import('fastify');
  const app = fastify();
  // It makes the JSON anew for each answer, as a route does that has something to say.
  const answer: unknown = JSON.parse(body);
  app.post(path, () => answer);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  return { port: Number(new URL(url).port), path, token, body };
}

if (process.argv[2] === '--serve') {
  const [, , , kind, argument = ''] = process.argv;
  process.send?.(kind === 'stoa' ? await serveStoa(argument) : await serveBare(JSON.parse(argument) as Server));
}
