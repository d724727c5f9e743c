/** The bridge of `stoa mcp`, with a server that loses its sessions and answers as a test says. */
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { PassThrough } from 'node:stream';
import { afterEach, expect, test } from 'vitest';
import { StdioBridge } from '../../../src/cli/mcp/stdio-bridge.js';
import { until } from '../../until.js';

const closes: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closes.splice(0)) await close();
});

type Answer = (response: ServerResponse) => void;

/** A client named "walrus" whose first call finds its session lost. Gives the answer, and the names of each `initialize`. */
async function callAfterLoss(again: readonly Answer[]): Promise<{ answer: unknown; names: unknown[] }> {
  const names: unknown[] = [];
  const answers = [opened('first'), ...again];
  const server = createServer((request, response) => {
    void bodyOf(request).then((body) => {
      if (request.method === 'GET') response.writeHead(405).end();
      else if (body.includes('"initialize"')) {
        names.push(request.headers['stoa-agent']);
        (answers.shift() ?? refusedFor({}))(response);
      } else if (request.headers['mcp-session-id'] === 'first') response.writeHead(404).end();
      else respond(response, 200, { jsonrpc: '2.0', id: 2, result: 'done' });
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const input = new PassThrough();
  const lines: string[] = [];
  const bridge = new StdioBridge({
    input,
    write: (line) => lines.push(line),
    agent: undefined,
    scope: undefined,
    findServer: async () => ({
      url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
      headers: {},
    }),
    lineBytesMax: 10_000,
    say: () => undefined,
  });
  const running = bridge.run();
  closes.push(async () => {
    input.end();
    await running;
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  input.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {} })}\n`);
  await until(() => lines.length === 1);
  input.write(`${JSON.stringify({ jsonrpc: '2.0', id: 2, method: 'ping' })}\n`);
  await until(() => lines.length === 2);
  return { answer: JSON.parse(lines[1] ?? ''), names };
}

const opened =
  (session: string): Answer =>
  (response) => {
    response.setHeader('mcp-session-id', session).setHeader('stoa-agent', 'walrus');
    respond(response, 200, { jsonrpc: '2.0', id: 1, result: {} });
  };

const refusedFor =
  (details: object): Answer =>
  (response) =>
    respond(response, 403, { detail: 'The server refuses this.', details });

function respond(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = '';
  for await (const part of request) text += String(part);
  return text;
}

test('opens its session again without a name that the server refuses', async () => {
  const { answer, names } = await callAfterLoss([refusedFor({ agent: 'walrus' }), opened('second')]);
  expect(answer).toMatchObject({ result: 'done' });
  expect(names).toEqual([undefined, 'walrus', undefined]);
});

test('keeps its name if the server refuses the session for another reason', async () => {
  const { answer, names } = await callAfterLoss([refusedFor({ scope: 'data' }), opened('second')]);
  expect(answer).toMatchObject({ error: { message: expect.stringContaining('The server refuses this.') } });
  expect(names).toEqual([undefined, 'walrus']);
});

test('says what is missing in an answer that opens no session', async () => {
  const { answer } = await callAfterLoss([
    (response) => respond(response, 200, { jsonrpc: '2.0', id: 1, result: {} }),
  ]);
  expect(answer).toMatchObject({
    error: { message: expect.stringContaining('has no Mcp-Session-Id header') },
  });
});
