/** The data store over HTTP against a bare Fastify that does the least: parse the body, answer a document. */
import { type ChildProcess, fork } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, byTurns } from './frame.js';

const connections = 64;
const turns = 9;
const milliseconds = 1_000;
const keys = 500;

/** What a server process tells once it listens. */
interface Listening {
  port: number;
  token: string;
}

const document = { value: { title: 'result', note: 'x'.repeat(940), tags: ['a', 'b', 'c'] } };

export const datastoreHttpBench: Bench = {
  name: 'datastore-http',
  run: async () => {
    const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
    const [stoa, bare] = [await startServer('stoa', data), await startServer('bare', data)];
    try {
      const puts = await byTurns(turns, () => load(stoa.listening, putRequest), () => load(bare.listening, putRequest));
      const gets = await byTurns(turns, () => load(stoa.listening, getRequest), () => load(bare.listening, getRequest));
      return [
        { what: `http: durable PUT of 1 KB, ${connections} connections / bare fastify that parses the body`, ...puts, unit: 'requests/s', target: { atLeast: 0.45 } },
        { what: `http: GET of 1 KB, ${connections} connections / bare fastify`, ...gets, unit: 'requests/s', target: { atLeast: 0.7 } },
      ];
    } finally {
      for (const { child } of [stoa, bare]) child.kill();
      await rm(data, { recursive: true, force: true });
    }
  },
};

let number = 0;

function putRequest(token: string): string {
  const body = JSON.stringify(document);
  return `PUT /v1/data/bench/key-${(number += 1) % keys} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function getRequest(token: string): string {
  return `GET /v1/data/bench/key-${(number += 1) % keys} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${token}\r\n\r\n`;
}

/** Requests a second over keep-alive connections, each with one request under way. */
async function load({ port, token }: Listening, next: (token: string) => string): Promise<number> {
  const state = { answered: 0, running: true };
  const startedMs = performance.now();
  const ends = Array.from({ length: connections }, () => ask(port, () => next(token), state));
  await new Promise((resolve) => setTimeout(resolve, milliseconds));
  state.running = false;
  await Promise.all(ends);
  return (state.answered / (performance.now() - startedMs)) * 1_000;
}

function ask(port: number, next: () => string, state: { answered: number; running: boolean }): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ port, host: '127.0.0.1' });
    let received = '';
    socket.setEncoding('latin1').setNoDelay();
    socket.on('connect', () => socket.write(next()));
    socket.on('error', reject);
    socket.on('data', (chunk: string) => {
      received += chunk;
      if (!received.endsWith('}')) return;
      if (!/^HTTP\/1\.1 20[01]/.test(received)) {
        reject(new Error(`Not the expected answer: ${received.slice(0, 300)}`));
        return;
      }
      received = '';
      state.answered += 1;
      if (state.running) socket.write(next());
      else socket.end(resolve);
    });
  });
}

function startServer(kind: 'stoa' | 'bare', data: string): Promise<{ listening: Listening; child: ChildProcess }> {
  return new Promise((resolve, reject) => {
    const child = fork(fileURLToPath(import.meta.url), ['--serve', kind, data]);
    child.once('message', (listening: Listening) => resolve({ listening, child }));
    child.once('exit', (status) => reject(new Error(`The server "${kind}" ended with ${status}.`)));
  });
}

async function serve(kind: string, data: string): Promise<Listening> {
  return kind === 'stoa' ? serveStoa(data) : serveBare();
}

async function serveStoa(data: string): Promise<Listening> {
  const [{ openStoa, operatorCaller }, { createApp }] = await Promise.all([import('../src/index.js'), import('../src/server/app.js')]);
  const stoa = await openStoa({ data });
  for (let key = 0; key < keys; key += 1) await stoa.data.set(operatorCaller(), 'bench', `key-${key}`, document.value);
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  return { port: Number(new URL(url).port), token: stoa.operatorToken };
}

/** Keeps nothing: a PUT is parsed and answered with a line, a GET answers an object that is always the same. */
async function serveBare(): Promise<Listening> {
  const { default: fastify } = await import('fastify');
  const app = fastify();
  const whole = { _id: 'default:bench:a2V5', userId: 'default', namespace: 'bench', key: 'key', ...document, metadata: {}, accessCount: 0, createdAt: '2026-11-15T20:41:07Z', updatedAt: '2026-11-15T20:41:07Z', version: 1 };
  app.put('/v1/data/:ns/:key', (request) => ({ key: (request.params as { key: string }).key, version: 1, updatedAt: whole.updatedAt }));
  app.get('/v1/data/:ns/:key', () => whole);
  const url = await app.listen({ port: 0, host: '127.0.0.1' });
  return { port: Number(new URL(url).port), token: 'none' };
}

if (process.argv[2] === '--serve') process.send?.(await serve(String(process.argv[3]), String(process.argv[4])));
