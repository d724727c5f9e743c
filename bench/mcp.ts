/**
 * A tool call over MCP against the HTTP route that does the same; both on one server in its own process,
 * measured alternately.
 */
import { type Bench, type Row, median } from './frame.js';
import { type Measured, type Rates, rates, requestBytes, warmUp } from './http-load.js';
import { type Served, withStore } from './store-server.js';

const turns = 9;
const connections = 16;
const document = { name: 'bench', steps: ['read', 'write', 'report'], done: false };

const modernVersion = '2026-07-28';
const modernHeaders = {
  'mcp-protocol-version': modernVersion,
  'mcp-method': 'tools/call',
  'mcp-name': 'recall',
};
const modernMeta = {
  'io.modelcontextprotocol/protocolVersion': modernVersion,
  'io.modelcontextprotocol/clientInfo': { name: 'bench', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};
/** Stands for the number of the request: a client never uses one twice in a session. */
const idMark = 'request-number';
const accepted = { accept: 'application/json, text/event-stream' };
const callOf = (params: object) =>
  JSON.stringify({
    jsonrpc: '2.0',
    id: idMark,
    method: 'tools/call',
    params: { name: 'recall', arguments: { key: 'bench' }, ...params },
  });

interface Asking {
  line: string;
  headers: Readonly<Record<string, string>>;
  body?: string;
}

export const mcpBench: Bench = {
  name: 'mcp',
  run: () =>
    withStore(async (server) => {
      await answerOf(server, {
        line: 'PUT /v1/data/default/bench',
        headers: {},
        body: JSON.stringify({ value: document }),
      });
      const session = await openSession(server);
      const read: Asking = { line: 'GET /v1/data/default/bench', headers: {} };
      const inSession: Asking = {
        line: 'POST /mcp',
        headers: { ...accepted, 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' },
        body: callOf({}),
      };
      const modern: Asking = {
        line: 'POST /mcp',
        headers: { ...accepted, ...modernHeaders },
        body: callOf({ _meta: modernMeta }),
      };
      return [
        ...(await compared('MCP recall in a session / GET of the same document', server, inSession, read)),
        ...(await compared('MCP recall of 2026-07-28 / GET of the same document', server, modern, read)),
      ];
    }),
};

async function compared(
  what: string,
  server: Served & Measured,
  ours: Asking,
  reference: Asking,
): Promise<Row[]> {
  const [oursLoad, referenceLoad] = [ours, reference].map((asking) => ({
    connections,
    request: () => bytesOf(server, asking),
  })) as [Load, Load]; // map forgets how many there are.
  for (const asking of [ours, reference]) {
    const { text } = await answerOf(server, asking);
    if (text.includes('isError') || !text.includes('report'))
      throw new Error(`Not the expected answer: ${text.slice(0, 400)}`);
  }
  for (const load of [oursLoad, referenceLoad]) await warmUp(load, server);
  const measured: { ours: Rates; reference: Rates }[] = [];
  for (let turn = 0; turn < turns; turn += 1)
    measured.push({ ours: await rates(oursLoad, server), reference: await rates(referenceLoad, server) });
  const row = (by: 'byCpu' | 'byClock', about: string): Row => ({
    what: `${what}, ${about}`,
    ours: median(measured.map((turn) => turn.ours[by])),
    reference: median(measured.map((turn) => turn.reference[by])),
    unit: 'calls/s',
    target: { atLeast: 0.3 },
  });
  return [row('byCpu', 'by processor time'), row('byClock', 'by the clock')];
}

interface Load {
  connections: number;
  request: () => string;
}

let requests = 0;

function bytesOf(server: Served, { line, headers, body }: Asking): string {
  requests += 1;
  const numbered = body?.replace(idMark, String(requests));
  const given = Object.entries({ 'stoa-agent': 'bench', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  return requestBytes(line, server, numbered).replace('\r\n', `\r\n${given.join('')}`);
}

async function answerOf(
  { url, token }: Served,
  { line, headers, body }: Asking,
): Promise<{ text: string; session: string | null }> {
  const [method = '', path = ''] = line.split(' ');
  const answer = await fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', ...headers },
    ...(body !== undefined && { body }),
  });
  return { text: await answer.text(), session: answer.headers.get('mcp-session-id') };
}

async function openSession(server: Served): Promise<string> {
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'bench', version: '1' } },
  });
  const { session } = await answerOf(server, { line: 'POST /mcp', headers: accepted, body });
  if (session === null) throw new Error('The server opened no session.');
  return session;
}
