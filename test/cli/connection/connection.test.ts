import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { Readable } from 'node:stream';
import { afterEach, expect, test, vi } from 'vitest';
import { connect } from '../../../src/cli/connection/connection.js';
import { loadConfig } from '../../../src/core/settings/config.js';

let server: Server | undefined;
afterEach(() => {
  vi.unstubAllGlobals();
  server?.closeAllConnections();
  server?.close();
});

async function connected(
  answer: (body: string) => { status?: number; text: string } | Promise<{ status?: number; text: string }>,
) {
  server = createServer(async (request, reply) => {
    let body = '';
    for await (const chunk of request) body += String(chunk);
    const { status = 200, text } = await answer(body);
    reply.writeHead(status, { 'content-type': 'application/json' }).end(text);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  return connect({
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    token: 'token',
    loadConfig: () => loadConfig({ flags: {}, environment: {} }).config,
  });
}

test('an answer may take any time: the header timeout of fetch is off', async () => {
  // Five minutes are long for a test; this fetch gives up as the real one then does.
  vi.stubGlobal('fetch', () =>
    Promise.reject(new TypeError('fetch failed', { cause: new Error('Headers Timeout Error') })),
  );
  const connection = await connected(async () => {
    await sleep(50);
    return { text: '{"name":"made"}' };
  });
  expect(await connection.call('backups.create', {})).toEqual({ name: 'made' });
});

test('a body is sent as it is read', async () => {
  const connection = await connected((body) => ({ text: JSON.stringify({ received: body }) }));
  expect(
    await connection.work('server.import', {}, () => undefined, Readable.from(['one\n', 'two\n'])),
  ).toEqual({
    received: 'one\ntwo\n',
  });
});

test("a refusal is the server's error; an unreachable server is a separate error", async () => {
  const connection = await connected(() => ({
    status: 409,
    text: '{"code":"quota_exceeded","detail":"The user has 10 of 10 agents."}',
  }));
  await expect(connection.call('agents.create', { name: 'scout' })).rejects.toMatchObject({
    code: 'quota_exceeded',
    message: 'The user has 10 of 10 agents.',
  });
  server?.closeAllConnections();
  server?.close();
  await expect(connection.call('server.status', {})).rejects.toMatchObject({ code: 'unreachable' });
});

test.each(['text/event-stream', 'application/x-ndjson'])(
  'a server that is gone in the middle of its answer of %s is told of as such',
  async (type) => {
    server = createServer((request, reply) => {
      request.resume();
      reply
        .writeHead(200, { 'content-type': type, 'content-length': 100 })
        .write(': begun\n\n', () => request.socket.destroy());
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const connection = await connect({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      token: 'token',
      loadConfig: () => loadConfig({ flags: {}, environment: {} }).config,
    });
    const gone = {
      code: 'unreachable',
      message: expect.stringContaining('disconnected before the work was done'),
      fix: expect.stringContaining('try again'),
    };
    await expect(connection.work('server.import', {}, () => undefined)).rejects.toMatchObject(gone);
    await expect(
      Readable.from(await connection.download('server.export', {})).toArray(),
    ).rejects.toMatchObject(gone);
    await expect(connection.call('server.status', {})).rejects.toMatchObject(gone);
  },
);

test('an HTML page instead of a Stoa answer is reported, also with status 200', async () => {
  const page = '<html>welcome</html>';
  await expect((await connected(() => ({ text: page }))).call('agents.list', {})).rejects.toMatchObject({
    code: 'unreachable',
    fix: 'Check --url.',
  });
  await expect(
    (await connected(() => ({ status: 502, text: page }))).call('agents.list', {}),
  ).rejects.toMatchObject({ code: 'unreachable', message: 'The server answered 502.' });
});
