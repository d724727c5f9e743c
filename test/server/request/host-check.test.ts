import { routeGroups } from '../../../src/server/routes/index.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Running } from '../running.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start(
    {},
    { allowedHosts: ['stoa.example'], corsOrigin: ['https://console.example'] },
  );
});
afterAll(() => running.stop());

/** The status of a request with these headers; fetch would not let them through. */
async function statusOf(path: string, headers: string[]): Promise<number> {
  const answer = await running.bytes(
    [
      'GET ' + path + ' HTTP/1.1',
      ...headers,
      `Authorization: Bearer ${running.operator}`,
      'Connection: close',
      '',
      '',
    ].join('\r\n'),
  );
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
  ['http://localhost', 200],
  ['https://LOCALHOST', 200],
  ['http://localhost:80', 200],
  ['https://console.example', 200],
  ['https://Console.example', 200],
  ['http://localhost:3000', 403],
  ['http://localhost:443', 403],
  ['http://127.0.0.1', 403],
  ['https://stoa.example', 403],
  ['https://console.example:8443', 403],
  ['http://console.example', 403],
  ['https://evil.example', 403],
  ['null', 403],
  ['file://', 403],
])('the Origin %j is %i on /v1', async (origin, status) => {
  expect(await statusOf('/v1/status', ['Host: localhost', `Origin: ${origin}`])).toBe(status);
});

test('the page of a server on a port of its own may call it, and a page of another port may not', async () => {
  const statuses = [];
  for (const origin of ['http://localhost:7862', 'http://localhost'])
    statuses.push(await statusOf('/v1/status', ['Host: localhost:7862', `Origin: ${origin}`]));
  expect(statuses).toEqual([200, 403]);
});

test('another spelling of the path does not bypass the check', async () => {
  expect(await statusOf('/%761/status', ['Host: evil.example'])).toBe(403);
});

test('health stays open to probes under any name', async () => {
  expect(await statusOf('/livez', ['Host: evil.example'])).toBe(200);
});

test.each(['/v1/status', '/mcp', '/livez', '/openapi.json', '/nowhere', '/v1/agents/%ff'])(
  'a request without Host is a 400 with a reason: %s',
  async (path) => {
    const answer = await running.bytes(`GET ${path} HTTP/1.1\r\nConnection: close\r\n\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(answer).toMatch(/^content-type: application\/problem\+json/im);
    const { code, request_id: id } = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as {
      code: string;
      request_id: string;
    };
    expect(code).toBe('invalid_request');
    expect(answer.toLowerCase()).toContain(`request-id: ${id}`);
  },
);

test.each([
  ['/v1/status', ['localhost', 'evil.example']],
  ['/v1/status', ['evil.example', 'localhost']],
  ['/v1/status', ['localhost', 'localhost']],
  ['/mcp', ['localhost', 'evil.example']],
  ['/livez', ['localhost', 'evil.example']],
  ['/nowhere', ['localhost', 'evil.example']],
])('two Hosts are a 400, whichever comes first: %s %j', async (path, hosts) => {
  expect(
    await statusOf(
      path,
      hosts.map((host) => `Host: ${host}`),
    ),
  ).toBe(400);
});

test('duplicate credentials count as none', async () => {
  for (const tokens of [
    [running.operator, 'nobody'],
    ['nobody', running.operator],
  ]) {
    const credentials = tokens.map((token) => `Authorization: Bearer ${token}`);
    const answer = await running.bytes(
      ['GET /v1/status HTTP/1.1', 'Host: localhost', ...credentials, 'Connection: close', '', ''].join(
        '\r\n',
      ),
    );
    expect(answer).toMatch(/^HTTP\/1\.1 401 /);
  }
});

test("a request without Host is a 400 in messaging's own shape, and good in HTTP/1.0", async () => {
  const answer = await running.bytes('GET /stats HTTP/1.1\r\nConnection: close\r\n\r\n');
  expect(answer).toMatch(/^HTTP\/1\.1 400 /);
  expect(answer).toContain('{"error":"The request has no Host header."}');
  expect(await running.bytes('GET /livez HTTP/1.0\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /);
  expect(
    await running.bytes(`GET /v1/status HTTP/1.0\r\nAuthorization: Bearer ${running.operator}\r\n\r\n`),
  ).toMatch(/^HTTP\/1\.1 403 /);
});

describe('every route', () => {
  const routes = routeGroups.flatMap((group) => group.routes);
  const calls = routes.map(({ method, path }) => [method, path.replaceAll(/\{[^}]+\}/g, 'x')] as const);

  test('refuses a page of another site, also for streams and whoever the caller is', async () => {
    const open: string[] = [];
    for (const [method, path] of calls)
      for (const accept of ['application/json', 'text/event-stream', 'text/html']) {
        const headers = { origin: 'https://evil.example', accept };
        const { status } = await running.ask(method, path, { as: running.operator, headers });
        if (status !== 403) open.push(`${method} ${path}: ${status}`);
      }
    expect(open).toEqual([]);
  });

  test('under /v1, /mcp and /console refuses the name of another host', async () => {
    const open: string[] = [];
    for (const [method, path] of calls) {
      if (!/^\/(?:v1|mcp|console)(?:\/|$)/.test(path)) continue;
      const answer = await running.bytes(
        `${method} ${path} HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n`,
      );
      if (!answer.startsWith('HTTP/1.1 403 ')) open.push(`${method} ${path}: ${answer.slice(0, 20)}`);
    }
    expect(open).toEqual([]);
  });
});
