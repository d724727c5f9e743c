import { afterAll, beforeAll, expect, test } from 'vitest';
import { Running } from './running.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start({}, { allowedHosts: ['stoa.example'], allowedOrigins: ['https://console.example'] });
});
afterAll(() => running.stop());

/** The status of a request with these headers; fetch would not let them through. */
async function statusOf(path: string, headers: string[]): Promise<number> {
  const answer = await running.bytes(['GET ' + path + ' HTTP/1.1', ...headers, `Authorization: Bearer ${running.operator}`, 'Connection: close', '', ''].join('\r\n'));
  return Number(answer.slice(9, 12));
}

test.each([
  ['127.0.0.1', 200],
  ['127.0.0.1:4000', 200],
  ['localhost', 200],
  ['LOCALHOST:80', 200],
  ['[::1]:8080', 200],
  ['stoa.example', 200],
  ['stoa.example:443', 200],
  ['evil.example', 403],
  ['evil.example:8080', 403],
  ['localhost.evil.example', 403],
  ['127.0.0.1.evil.example', 403],
  ['user@localhost', 403],
  ['', 403],
])('the Host %j is %i on /v1', async (host, status) => {
  expect(await statusOf('/v1/status', [`Host: ${host}`])).toBe(status);
});

test.each([
  ['http://localhost:3000', 200],
  ['http://127.0.0.1', 200],
  ['https://stoa.example', 200],
  ['https://console.example', 200],
  ['http://console.example', 403],
  ['https://evil.example', 403],
  ['null', 403],
  ['file://', 403],
])('the Origin %j is %i on /v1', async (origin, status) => {
  expect(await statusOf('/v1/status', ['Host: localhost', `Origin: ${origin}`])).toBe(status);
});

test('another spelling of the path does not get around it', async () => {
  expect(await statusOf('/%761/status', ['Host: evil.example'])).toBe(403);
});

test('health stays open to probes under any name', async () => {
  expect(await statusOf('/livez', ['Host: evil.example'])).toBe(200);
});
