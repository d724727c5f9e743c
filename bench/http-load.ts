/**
 * Load on a server that has a process of its own, over keep-alive connections with one request at a
 * time on each.
 *
 * Requests for a second of processor time are the number to go by: it is what limits a server, and
 * neighbours on the machine disturb it least. Requests a second by the clock also show waiting, such
 * as for the disk, but the process that sends the load shares the machine with the server, and where
 * it is the slower of the two every server looks alike.
 */
import type { ChildProcess } from 'node:child_process';
import { createConnection } from 'node:net';
import { type ChildServer, forkServer } from './child-server.js';
import { type Row, median } from './frame.js';

const roundMs = 1_000;
const turns = 9;
/**
 * The compiler is at work on code that waits for the disk for the first tens of thousands; and a server is
 * not measured in its first seconds.
 */
const warmUpRequests = 50_000;

/** A route under load: its requests in turn, and the share of the bare route's rate that it must reach. */
export interface Load<Server> {
  what: string;
  connections: number;
  request: (server: Server, index: number) => string;
  atLeast: number;
  /**
   * The one who asks never sleeps. Where it does, each answer of a server that is slower than it has
   * to wake its processor, and in a virtual machine that is more than half of what the server then
   * costs. Not where threads of the server write to the disk meanwhile: they need that processor.
   */
  sleepless?: boolean;
}

type Asked<Server> = Pick<Load<Server>, 'request' | 'connections' | 'sleepless'>;

/** What every server reports about itself. */
export interface Measured {
  url: string;
  cpuUs(): Promise<number>;
  settle?(): Promise<unknown>;
}

export interface Rates {
  answered: number;
  byCpu: number;
  byClock: number;
}

/** Two rows: by processor time and by the clock. */
export async function compare<Server extends Measured>(
  load: Load<Server>,
  stoa: Server,
  bare: Server,
): Promise<Row[]> {
  const measured: { ours: Rates; reference: Rates }[] = [];
  for (const server of [bare, stoa]) await warmUp(load, server);
  for (let turn = 0; turn < turns; turn += 1)
    measured.push({ reference: await rates(load, bare), ours: await rates(load, stoa) });
  const row = (by: 'byCpu' | 'byClock', about: string): Row => ({
    what: `${load.what} / bare Fastify route, ${about}`,
    ours: median(measured.map(({ ours }) => ours[by])),
    reference: median(measured.map(({ reference }) => reference[by])),
    unit: 'req/s',
    target: { atLeast: load.atLeast },
  });
  return [row('byCpu', 'by processor time'), row('byClock', 'by the clock')];
}

/** By requests, not by time: on a busy machine a second is too short for the code to be compiled. */
export async function warmUp<Server extends Measured>(load: Asked<Server>, server: Server): Promise<void> {
  for (let answered = 0; answered < warmUpRequests;) answered += (await rates(load, server)).answered;
}

/** Keeps every connection busy with one request at a time. Work that the server does after its answers counts too. */
export async function rates<Server extends Measured>(
  { request, connections, sleepless = false }: Asked<Server>,
  server: Server,
): Promise<Rates> {
  const { port } = new URL(server.url);
  const state = { answered: 0, running: true };
  const next = () => request(server, state.answered);
  await server.settle?.();
  const startedCpuUs = await server.cpuUs();
  const startedMs = performance.now();
  if (sleepless) stayAwake(state);
  const ends = Array.from({ length: connections }, () => askOnAndOn(Number(port), next, state));
  const stop = setTimeout(() => (state.running = false), roundMs);
  await Promise.all(ends);
  clearTimeout(stop);
  const byClock = (state.answered / (performance.now() - startedMs)) * 1_000;
  await server.settle?.();
  return {
    answered: state.answered,
    byClock,
    byCpu: (state.answered / ((await server.cpuUs()) - startedCpuUs)) * 1_000_000,
  };
}

function stayAwake(state: { running: boolean }): void {
  if (state.running) setImmediate(stayAwake, state);
}

/** The bytes of a request: its line, the headers that all share, and a JSON body if it has one. */
export function requestBytes(
  line: string,
  { url, token }: { url: string; token: string },
  body?: string,
): string {
  const head = `${line} HTTP/1.1\r\nhost: ${new URL(url).host}\r\nauthorization: Bearer ${token}\r\n`;
  return body === undefined
    ? `${head}\r\n`
    : `${head}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

function askOnAndOn(
  port: number,
  next: () => string,
  state: { answered: number; running: boolean },
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ port, host: '127.0.0.1' });
    let received = '';
    socket.setEncoding('latin1').setNoDelay();
    socket.on('error', reject);
    socket.on('connect', () => socket.write(next()));
    socket.on('data', (chunk: string) => {
      received += chunk;
      if (!isWhole(received)) return;
      if (!/^HTTP\/1\.1 20[01] /.test(received)) {
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

/** Starts a server of the file, which ends with the others. */
export async function startServer<Served>(
  children: ChildProcess[],
  file: string,
  kind: string,
  argument: string,
): Promise<Served & Pick<ChildServer<Served>, 'cpuUs' | 'settle'>> {
  const { child, served, cpuUs, settle } = await forkServer<Served>(file, [kind, argument]);
  children.push(child);
  return { ...served, cpuUs, settle };
}
