/**
 * What the server costs above a bare Fastify route that answers the same bytes. Each server has a
 * process of its own, this one sends the load over keep-alive connections, by turns.
 *
 * Each route has two rows. Requests for a second of processor time is the one to go by: it is what
 * limits a server, and neighbours on the machine disturb it least. Requests a second by the clock
 * also shows waiting, such as for the disk, but this process shares the machine with the server it
 * loads, and where it is the slower of the two both servers look alike.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, type Row, median } from './frame.js';
import { type Served, documentBody, documentPath } from './http-server.js';

const connections = 32;
const roundMs = 1_000;
const turns = 9;

/** A route under load: its requests by turns, and what of the bare route's rate it must reach. */
interface Load {
  what: string;
  request: (server: Served, index: number) => string;
  atLeast: number;
}

const loads: readonly Load[] = [
  { what: 'GET /v1/agents/{id}', request: ({ agentIds }, index) => `GET /v1/agents/${agentIds[index % agentIds.length]}`, atLeast: 0.75 },
  { what: 'GET /v1/data/{ns}/{key} of 1 KB', request: (_, index) => `GET ${documentPath(index)}`, atLeast: 0.7 },
  { what: 'PUT /v1/data/{ns}/{key} of 1 KB, durable', request: (_, index) => `PUT ${documentPath(index)}`, atLeast: 0.45 },
];

interface Server extends Served {
  cpuUs(): Promise<number>;
}

interface Rates {
  byCpu: number;
  byClock: number;
}

export const httpBench: Bench = {
  name: 'http',
  run: async () => {
    const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
    const children: ChildProcess[] = [];
    try {
      const stoa = await start(children, 'stoa', data);
      const bare = await start(children, 'bare', JSON.stringify(stoa));
      const rows: Row[] = [];
      for (const load of loads) rows.push(...(await compare(load, stoa, bare)));
      return rows;
    } finally {
      for (const child of children) child.kill();
      await rm(data, { recursive: true, force: true });
    }
  },
};

async function compare(load: Load, stoa: Server, bare: Server): Promise<Row[]> {
  const measured: { ours: Rates; reference: Rates }[] = [];
  // The first two turns warm up and count for nothing.
  for (let turn = -2; turn < turns; turn += 1) {
    const both = { reference: await rates(load, bare), ours: await rates(load, stoa) };
    if (turn >= 0) measured.push(both);
  }
  const row = (by: keyof Rates, about: string): Row => ({
    what: `${load.what} / bare Fastify route, ${about}`,
    ours: median(measured.map(({ ours }) => ours[by])),
    reference: median(measured.map(({ reference }) => reference[by])),
    unit: 'req/s',
    target: { atLeast: load.atLeast },
  });
  return [row('byCpu', 'by processor time'), row('byClock', 'by the clock')];
}

/** Keeps every connection busy with one request at a time. */
async function rates({ request }: Load, server: Server): Promise<Rates> {
  const { port, host } = new URL(server.url);
  const state = { answered: 0, running: true };
  const next = () => requestBytes(request(server, state.answered), host, server.token);
  const startedCpuUs = await server.cpuUs();
  const startedMs = performance.now();
  const ends = Array.from({ length: connections }, () => askOnAndOn(Number(port), next, state));
  const stop = setTimeout(() => (state.running = false), roundMs);
  await Promise.all(ends);
  clearTimeout(stop);
  const byClock = (state.answered / (performance.now() - startedMs)) * 1_000;
  return { byClock, byCpu: (state.answered / ((await server.cpuUs()) - startedCpuUs)) * 1_000_000 };
}

function requestBytes(line: string, host: string, token: string): string {
  const head = `${line} HTTP/1.1\r\nhost: ${host}\r\nauthorization: Bearer ${token}\r\n`;
  return line.startsWith('PUT') ? `${head}content-type: application/json\r\ncontent-length: ${documentBody.length}\r\n\r\n${documentBody}` : `${head}\r\n`;
}

function askOnAndOn(port: number, next: () => string, state: { answered: number; running: boolean }): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ port, host: '127.0.0.1' });
    let received = '';
    socket.setEncoding('latin1').setNoDelay();
    socket.on('error', reject);
    socket.on('connect', () => socket.write(next()));
    socket.on('data', (chunk: string) => {
      received += chunk;
      if (!isWhole(received)) return;
      if (!received.startsWith('HTTP/1.1 20')) {
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

function isWhole(received: string): boolean {
  const head = received.indexOf('\r\n\r\n');
  const length = /content-length: (\d+)/i.exec(received)?.[1];
  return head !== -1 && received.length >= head + 4 + Number(length ?? 0);
}

async function start(children: ChildProcess[], kind: string, argument: string): Promise<Server> {
  const child = fork(fileURLToPath(new URL('http-server.js', import.meta.url)), [kind, argument]);
  children.push(child);
  const ended = once(child, 'exit').then(() => Promise.reject(new Error(`The server "${kind}" ended.`)));
  // It also ends when all is measured, and nobody waits for it then.
  ended.catch(() => undefined);
  const hear = async <T>(): Promise<T> => {
    const [message] = (await Promise.race([once(child, 'message'), ended])) as [T];
    return message;
  };
  const served = await hear<Served>();
  const cpuUs = () => {
    const told = hear<number>();
    child.send('cpu');
    return told;
  };
  return { ...served, cpuUs };
}
