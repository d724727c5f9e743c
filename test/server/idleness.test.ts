/** A server that "stoa mcp" started stops when it has had no client for a while. */
import { type Server, createServer, get } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { untilIdle } from '../../src/server/idleness.js';

let server: Server;
let url: string;
/** Ends the answer of the stream. */
let endStream: () => void;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  server = createServer((request, response) => {
    response.writeHead(200).flushHeaders();
    if (request.url === '/stream') endStream = () => response.end();
    else response.end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(() => {
  vi.useRealTimers();
  server.closeAllConnections();
  server.close();
});

function idle(): { isOver(): Promise<boolean> } {
  let over = false;
  void untilIdle(server, 600).then(() => (over = true));
  return {
    isOver: async () => {
      await vi.advanceTimersByTimeAsync(0);
      return over;
    },
  };
}

/** The answer has begun; `ended` resolves when the server has closed it. */
async function ask(path: string): Promise<{ ended: Promise<void> }> {
  const closed = new Promise<void>((resolve) =>
    server.once('request', (_request, response) => response.once('close', resolve)),
  );
  await new Promise<void>((resolve, reject) =>
    get(url + path, (response) => {
      response.resume();
      resolve();
    }).on('error', reject),
  );
  return { ended: closed };
}

it('it stops ten minutes after the last request', async () => {
  const { isOver } = idle();
  await vi.advanceTimersByTimeAsync(599_000);
  await (
    await ask('/v1/agents')
  ).ended;
  await vi.advanceTimersByTimeAsync(599_000);
  expect(await isOver()).toBe(false);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(await isOver()).toBe(true);
});

it('an open stream is a client, a monitor is not', async () => {
  const { isOver } = idle();
  const { ended } = await ask('/stream');
  await vi.advanceTimersByTimeAsync(3_600_000);
  expect(await isOver()).toBe(false);
  endStream();
  await ended;
  await vi.advanceTimersByTimeAsync(300_000);
  for (const path of ['/livez', '/metrics', '/readyz?full']) await (await ask(path)).ended;
  await vi.advanceTimersByTimeAsync(300_000);
  expect(await isOver()).toBe(true);
});
