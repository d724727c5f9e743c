import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { StoaError } from '../../src/core/errors.js';
import { Running } from '../server/running.js';

const accept = 'application/json, text/event-stream';
const modernVersion = '2026-07-28';
const meta = {
  'io.modelcontextprotocol/protocolVersion': modernVersion,
  'io.modelcontextprotocol/clientInfo': { name: 'direct', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

let running: Running;
let session: string;
const reported: string[] = [];

beforeAll(async () => {
  running = await Running.start({ onError: (_error, about) => void reported.push(about) });
  const initialize = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'direct', version: '1' } },
  };
  session =
    (
      await running.ask('POST', '/mcp', { as: running.alice, body: initialize, headers: { accept } })
    ).headers.get('mcp-session-id') ?? '';
  await running.stoa.data.set(operatorCaller('alice', 'direct'), 'default', 'ü "quoted"', {
    list: [1, null, 'a\nb'],
    deep: { x: -0.5 },
  });
});
afterAll(() => running.stop());

/** The same call twice: the second has a header that only the protocol library reads. */
async function bothWays(
  generation: 'legacy' | 'modern',
  name: string,
  input: unknown,
  id: string | number = 7,
) {
  const headers: Record<string, string> =
    generation === 'legacy'
      ? { 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' }
      : { 'mcp-protocol-version': modernVersion, 'mcp-method': 'tools/call', 'mcp-name': name };
  const params = { name, arguments: input, ...(generation === 'modern' && { _meta: meta }) };
  const ask = (contentType: string) =>
    running.ask('POST', '/mcp', {
      as: running.alice,
      raw: JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }),
      headers: { accept, 'content-type': contentType, ...headers },
    });
  return { direct: await ask('application/json'), long: await ask('application/json; charset=utf-8') };
}

test.each(['legacy', 'modern'] as const)(
  'a call is answered with the same words by the short way and the long one (%s)',
  async (generation) => {
    for (const [name, input] of [
      ['recall', { key: ['ü "quoted"', 'missing'] }],
      ['list', { namespace: 'default', values: true }],
      ['recall', { key: 7 }],
      ['recall', {}],
      ['recall', undefined],
      ['recall', { key: 'k', unknown: true }],
      ['work', { action: 'complete', task: 'task_01a1e14b-12a6-7000-92db-c354f8aae8b9', fence: 1 }],
      ['read', { room: 'global', wait_seconds: 0 }],
      ['no-such-tool', {}],
      ['recall', []],
    ] as const) {
      const { direct, long } = await bothWays(generation, name, input);
      expect([name, direct.status, direct.json]).toEqual([name, long.status, long.json]);
      expect(direct.headers.get('content-type')).toBe(long.headers.get('content-type'));
    }
    for (const id of ['text', 0, -1, '']) {
      const { direct, long } = await bothWays(generation, 'recall', { key: 'missing' }, id);
      expect([direct.status, direct.json]).toEqual([long.status, long.json]);
    }
  },
);

test.each(['legacy', 'modern'] as const)('the caller is the same by both (%s)', async (generation) => {
  await bothWays(generation, 'remember', { key: generation, value: 1 });
  const entry = await running.stoa.data.getEntry(operatorCaller('alice'), 'default', generation);
  expect(entry).toMatchObject({
    // A session has a name of its own, a call without one has the name of its program.
    createdByAgent: expect.stringMatching(generation === 'legacy' ? /^direct-[a-z]+(-\d+)?$/ : /^direct$/),
    updatedByAgent: entry?.createdByAgent,
    userId: 'alice',
    version: 2,
  });
});

test('claims are renewed by the next call after a renewal that failed', async () => {
  const renew = vi.spyOn(running.stoa.workspaces, 'renewClaims');
  renew.mockRejectedValueOnce(new StoaError('overloaded', 'The store is busy.'));
  const body = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: 'recall',
      arguments: { key: 'k' },
      _meta: { ...meta, 'io.modelcontextprotocol/clientInfo': { name: 'renewing', version: '1' } },
    },
  };
  const headers = {
    accept,
    'mcp-protocol-version': modernVersion,
    'mcp-method': 'tools/call',
    'mcp-name': 'recall',
  };
  for (let call = 0; call < 4; call += 1)
    expect((await running.ask('POST', '/mcp', { as: running.alice, body, headers })).status).toBe(200);
  expect(renew).toHaveBeenCalledTimes(2);
  expect(reported).toEqual(['renewing the claims of an MCP client']);
  renew.mockRestore();
});

test('a call of the new revision whose headers contradict its body is refused', async () => {
  const body = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: { name: 'recall', arguments: { key: 'k' }, _meta: meta },
  };
  const headers = {
    accept,
    'mcp-protocol-version': modernVersion,
    'mcp-method': 'tools/call',
    'mcp-name': 'recall',
  };
  expect((await running.ask('POST', '/mcp', { as: running.alice, body, headers })).status).toBe(200);
  for (const wrong of [
    { 'mcp-name': 'remember' },
    { 'mcp-method': 'tools/list' },
    { 'mcp-protocol-version': '2025-06-18' },
  ]) {
    expect(
      (await running.ask('POST', '/mcp', { as: running.alice, body, headers: { ...headers, ...wrong } }))
        .status,
    ).toBe(400);
  }
});

test('a failure of the database while the agent of a call is checked is reported as such', async () => {
  const check = vi
    .spyOn(running.stoa.registry.agents, 'checkOwnName')
    // The check of the request itself.
    .mockResolvedValueOnce(undefined)
    .mockRejectedValueOnce(new StoaError('unreachable', 'The database does not answer.'));
  const { json } = await running.ask('POST', '/mcp', {
    as: running.alice,
    body: {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'recall', arguments: { key: 'k' } },
    },
    headers: { accept, 'mcp-session-id': session, 'mcp-protocol-version': '2025-06-18' },
  });
  expect(check).toHaveBeenCalled();
  check.mockRestore();
  expect(json).toMatchObject({ result: { isError: true } });
  expect(JSON.parse(json.result.content[0].text)).toEqual({
    error: { code: 'unreachable', detail: 'The database does not answer.' },
  });
});
