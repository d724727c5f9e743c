/** A tool call over MCP against the HTTP route that does the same; one server in a process of its own, asked by turns. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { type Socket, createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Bench, type Row, byTurns } from './frame.js';

const roundMs = 1_000;
const turns = 7;
const connections = 16;

interface Server {
  port: number;
  token: string;
}

export const mcpBench: Bench = {
  name: 'mcp',
  run: async () => {
    const data = await mkdtemp(join(tmpdir(), 'stoa-bench-'));
    const child = fork(fileURLToPath(import.meta.url), ['--serve', data]);
    try {
      const [server] = (await once(child, 'message')) as [Server];
      const session = await openSession(server);
      const route = await byTurns(turns, () => rate(server, call(server, { 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' }, {})), () => rate(server, read(server)));
      const modern = await byTurns(turns, () => rate(server, call(server, modernHeaders, { _meta: modernMeta })), () => rate(server, read(server)));
      return [row('MCP recall in a session / GET of the same document', route), row('MCP recall of 2026-07-28 / GET of the same document', modern)];
    } finally {
      await end(child);
      await rm(data, { recursive: true, force: true });
    }
  },
};

function row(what: string, measured: { ours: number; reference: number }): Row {
  return { what, ...measured, unit: 'calls/s', target: { atLeast: 0.15 } };
}

const modernVersion = '2026-07-28';
const modernHeaders = { 'mcp-protocol-version': modernVersion, 'mcp-method': 'tools/call', 'mcp-name': 'recall' };
const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': modernVersion,
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

function head({ port, token }: Server, first: string, headers: Record<string, string>): string {
  const given = { host: `127.0.0.1:${port}`, authorization: `Bearer ${token}`, 'stoa-agent': 'bench', ...headers };
  return `${first} HTTP/1.1\r\n${Object.entries(given).map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`;
}

function read(server: Server): Buffer {
  return Buffer.from(head(server, 'GET /v1/data/default/bench', {}));
}

function call(server: Server, headers: Record<string, string>, params: object): Buffer {
  return post(server, headers, { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'recall', arguments: { key: 'bench' }, ...params } });
}

function post(server: Server, headers: Record<string, string>, message: object): Buffer {
  const body = JSON.stringify(message);
  return Buffer.from(head(server, 'POST /mcp', { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'content-length': String(Buffer.byteLength(body)), ...headers }) + body);
}

async function openSession({ port, token }: Server): Promise<string> {
  const answer = await fetch(`http://127.0.0.1:${port}/mcp`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 0, method: 'initialize', params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'bench', version: '1' } } }),
  });
  await answer.text();
  return answer.headers.get('mcp-session-id') ?? '';
}

/** Each connection has one request at a time under way. Answers a second. */
async function rate({ port }: Server, request: Buffer): Promise<number> {
  const startedMs = performance.now();
  const counts = await Promise.all(Array.from({ length: connections }, () => ask(createConnection(port, '127.0.0.1'), request, startedMs + roundMs)));
  return (counts.reduce((sum, count) => sum + count, 0) / (performance.now() - startedMs)) * 1_000;
}

function ask(socket: Socket, request: Buffer, untilMs: number): Promise<number> {
  return new Promise((resolve, reject) => {
    let count = 0;
    let received = '';
    socket.setNoDelay(true).setEncoding('latin1');
    socket.on('error', reject);
    socket.on('connect', () => socket.write(request));
    socket.on('data', (chunk) => {
      received += String(chunk);
      const bodyAt = received.indexOf('\r\n\r\n');
      const length = Number(/content-length: (\d+)/i.exec(received)?.[1] ?? Number.NaN);
      if (bodyAt === -1 || received.length < bodyAt + 4 + length) return;
      if (!received.startsWith('HTTP/1.1 200') || received.includes('isError') || !received.includes('bench')) {
        socket.destroy();
        reject(new Error(`Not the expected answer: ${received.slice(0, 400)}`));
        return;
      }
      received = '';
      count += 1;
      if (performance.now() < untilMs) socket.write(request);
      else socket.end(() => resolve(count));
    });
  });
}

async function end(child: ChildProcess): Promise<void> {
  const ended = once(child, 'exit');
  child.kill();
  await ended;
}

async function serve(data: string): Promise<void> {
  const { openStoa } = await import('../src/index.js');
  const { createApp } = await import('../src/server/app.js');
  const { operatorCaller } = await import('../src/identity/caller.js');
  const stoa = await openStoa({ data });
  await stoa.data.set(operatorCaller('alice'), 'default', 'bench', { name: 'bench', steps: ['read', 'write', 'report'], done: false });
  const { token } = await stoa.identity.createToken(operatorCaller(), 'alice', {}, null);
  const url = await createApp(stoa).listen({ port: 0, host: '127.0.0.1' });
  process.send?.({ port: Number(new URL(url).port), token });
}

if (process.argv[2] === '--serve') await serve(process.argv[3] as string);
