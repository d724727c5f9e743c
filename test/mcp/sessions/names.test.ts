/** Clients that give no name: each is an agent of its own, also those that start at the same moment. */
import { PassThrough } from 'node:stream';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { StdioBridge } from '../../../src/cli/mcp/stdio-bridge.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { nameCandidates } from '../../../src/mcp/sessions/names.js';
import { Running } from '../../server/running.js';
import { until } from '../../until.js';

const program = 'walker';
const [onlyFree, ...taken] = nameCandidates(program);
const clientInfo = { name: program, version: '1' };
const alice = operatorCaller('alice');
const atOnce = 4;

let running: Running;
beforeAll(async () => {
  running = await Running.start({ limits: { agentsPerUserMax: 150 } });
  for (const name of taken) await running.stoa.registry.createAgent(alice, { name });
});
afterAll(() => running.stop());

/** Opens a session of the protocol of 2025: the name that the server gave it. */
async function sessionName(as: string): Promise<string> {
  const params = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  const reply = await running.ask('POST', '/mcp', {
    as,
    body: { jsonrpc: '2.0', id: 0, method: 'initialize', params },
    headers: { accept: 'application/json, text/event-stream' },
  });
  expect(reply.status, reply.text).toBe(200);
  return decodeURIComponent(reply.headers.get('stoa-agent') ?? '');
}

/** The name of a client of 2026 behind `stoa mcp`, as the tool `agents` tells it. */
async function bridgedName(as: string): Promise<string> {
  const input = new PassThrough();
  const lines: string[] = [];
  const bridge = new StdioBridge({
    input,
    write: (line) => lines.push(line),
    agent: undefined,
    scope: undefined,
    findServer: async () => ({ url: running.url, headers: { authorization: `Bearer ${as}` } }),
    lineBytesMax: 10_000,
    say: () => undefined,
  });
  const ended = bridge.run();
  const meta = { protocolVersion: '2026-07-28', clientInfo, clientCapabilities: {} };
  const _meta = Object.fromEntries(
    Object.entries(meta).map(([name, value]) => [`io.modelcontextprotocol/${name}`, value]),
  );
  const params = { name: 'agents', arguments: {}, _meta };
  input.write(`${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params })}\n`);
  await until(() => lines.length === 1);
  input.end();
  await ended;
  return String(JSON.parse(lines[0] ?? '').result.structuredContent.you);
}

const several = (open: () => Promise<string>) => Promise.all(Array.from({ length: atOnce }, open));

test('clients that start at once have different names, although one simple name is left', async () => {
  const names = (
    await Promise.all([
      several(() => sessionName(running.alice)),
      several(() => bridgedName(running.alice)),
      several(() => sessionName(running.reader)),
      several(() => bridgedName(running.reader)),
    ])
  ).flat();
  expect(new Set(names).size).toBe(4 * atOnce);
  for (const name of names) {
    expect(taken).not.toContain(name);
    expect(name).toMatch(/^walker-[a-z]+(-[\da-f]{12})?$/);
  }
  expect(names).toContain(onlyFree);
});

test('the agent of a session is present before its first call, so that nobody else takes its name', async () => {
  const first = await sessionName(running.bob);
  const { items } = await running.stoa.registry.listAgents(operatorCaller('bob'), {});
  expect(items).toMatchObject([{ name: first, presence: 'live' }]);
});
