import { once } from 'node:events';
import { type Socket, connect } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import type { Limits } from '../../../src/core/settings/limits.js';
import { until } from '../../until.js';
import { Running } from '../running.js';

let server: Running;
let socket: Socket;
const clients: Socket[] = [];
const largeText = 'x'.repeat(1_000_000);

afterEach(async () => {
  for (const client of clients.splice(0)) client.destroy();
  await server.stop();
});

async function open(options: Parameters<typeof Running.start>[0] = {}): Promise<void> {
  server = await Running.start(options);
  const { port, hostname } = new URL(server.url);
  socket = connect(Number(port), hostname);
  clients.push(socket);
  await once(socket, 'connect');
}

function requestText(method: string, path: string, value?: unknown): string {
  const body = value === undefined ? '' : JSON.stringify({ value });
  return [
    `${method} ${path} HTTP/1.1`,
    'Host: 127.0.0.1',
    `Authorization: Bearer ${server.alice}`,
    ...(body === '' ? [] : ['Content-Type: application/json', `Content-Length: ${body.length}`]),
    '',
    body,
  ].join('\r\n');
}

function statusesIn(text: string): string[] {
  return [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => String(status));
}

/** How many requests of a route the server has answered. */
async function answersOf(method: string, route: string): Promise<number> {
  const { text } = await server.ask('GET', '/metrics');
  const line = `stoa_http_requests_total{method="${method}",route="${route}",status="200"} `;
  return Number(text.split(line)[1]?.split('\n')[0] ?? 0);
}

/** Sends everything in one write and reads until there are `count` answers. */
async function answersTo(requests: readonly string[], count = requests.length): Promise<string> {
  let text = '';
  socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')));
  socket.write(requests.join(''));
  await until(() => statusesIn(text).length >= count);
  return text;
}

describe('requests that are sent before the answers to earlier ones', () => {
  it('run in their order: a read sees the write before it', async () => {
    await open();
    const text = await answersTo([
      requestText('PUT', '/v1/data/notes/a', 1),
      requestText('GET', '/v1/data/notes/a'),
      requestText('DELETE', '/v1/data/notes/a'),
      requestText('GET', '/v1/data/notes/a'),
      requestText('HEAD', '/livez'),
      requestText('GET', '/livez'),
    ]);
    expect(statusesIn(text)).toEqual(['201', '200', '204', '404', '200', '200']);
  });

  it('are not started while the client does not read the answer before them', async () => {
    await open();
    await server.ask('PUT', '/v1/data/notes/large', { as: server.alice, body: { value: largeText } });
    socket.pause();
    const reads = Array.from({ length: 60 }, () => requestText('GET', '/v1/data/notes/large'));
    socket.write([...reads, requestText('PUT', '/v1/data/notes/last', 1)].join(''));
    // The large answers do not fit into the buffers of the operating system.
    await until(async () => (await answersOf('GET', '/v1/data/{namespace}/{key}')) > 0);
    expect((await server.ask('GET', '/v1/data/notes/last', { as: server.alice })).status).toBe(404);
    socket.resume();
    await until(
      async () => (await server.ask('GET', '/v1/data/notes/last', { as: server.alice })).status === 200,
    );
  });

  it('are refused beyond pipelinedRequestsMax, and do nothing', async () => {
    await open({ limits: { pipelinedRequestsMax: 2 } });
    const text = await answersTo(
      Array.from({ length: 5 }, (_, index) => requestText('PUT', `/v1/data/notes/k${index}`, index)),
    );
    expect(statusesIn(text)).toEqual(['201', '201', '201', '503', '503']);
    expect(text).toContain('pipelinedRequestsMax');
    const { json } = await server.ask('GET', '/v1/data/notes', { as: server.alice });
    expect(json['items']).toHaveLength(3);
  });

  it('get no answer that belongs to bytes behind them', async () => {
    await open();
    let text = '';
    socket.on('data', (bytes: Buffer) => (text += bytes.toString('latin1')));
    socket.write(`${requestText('PUT', '/v1/data/notes/a', 1)}no request\r\n\r\n`);
    await once(socket, 'close');
    expect(statusesIn(text)).not.toContain('400');
  });
});

/** A server with 16 MB in one namespace. */
async function start(limits: Partial<Limits>): Promise<void> {
  server = await Running.start({ limits });
  const set = Object.fromEntries(Array.from({ length: 16 }, (_, index) => [`k${index}`, largeText]));
  await server.ask('POST', '/v1/data/notes', { as: server.alice, body: { set } });
}

/** A connection that asks for 16 MB, more than the operating system buffers; answers the server's side. */
async function unread(): Promise<Socket> {
  const before = await answersOf('GET', '/v1/data/{namespace}');
  const accepted = once(server.app.server, 'connection');
  const { port, hostname } = new URL(server.url);
  const client = connect(Number(port), hostname).on('error', () => undefined);
  clients.push(client.pause());
  client.write(requestText('GET', '/v1/data/notes?values=1'));
  const [serverSide] = (await accepted) as [Socket];
  await until(async () => (await answersOf('GET', '/v1/data/{namespace}')) > before);
  return serverSide;
}

describe('answers that a client does not read', () => {
  it('beyond unreadAnswerBytesMax end the connection of the oldest one', async () => {
    await start({ unreadAnswerBytesMax: 40_000_000 });
    const [first, second, third] = [await unread(), await unread(), await unread()];
    await until(() => first.destroyed);
    expect([second.destroyed, third.destroyed]).toEqual([false, false]);
  });

  it('end the connection when nothing of them is read for streamStallSecondsMax', async () => {
    await start({ streamStallSecondsMax: 0.2 });
    const stalled = await unread();
    await until(() => stalled.destroyed);
  });
});
