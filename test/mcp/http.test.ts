import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { Running } from '../server/running.js';
import { TestClient, generations } from './client.js';
import { eventually } from '../until.js';

const accept = 'application/json, text/event-stream';
const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
};
const listTools = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

const faults: string[] = [];
let running: Running;
beforeAll(async () => {
  running = await Running.start({
    limits: { mcpSessionsPerUserMax: 3, mcpSubscriptionsMax: 2 },
    onError: (_error, about) => faults.push(about),
  });
});
afterAll(() => running.stop());

async function openSession(as: string): Promise<string> {
  const reply = await running.ask('POST', '/mcp', { as, body: initialize, headers: { accept } });
  expect(reply.status, reply.text).toBe(200);
  return reply.headers.get('mcp-session-id') ?? '';
}

async function inSession(session: string, as: string, body: unknown = listTools): Promise<number> {
  return (await running.ask('POST', '/mcp', { as, body, headers: { accept, 'mcp-session-id': session } }))
    .status;
}

async function callOnce(as: string, name: string, input: unknown) {
  const reply = await running.ask('POST', '/mcp', {
    as,
    body: { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name, arguments: input } },
  });
  return reply.json;
}

describe('credentials', () => {
  test('callers without credentials, or with a wrong token, are refused', async () => {
    expect((await running.ask('POST', '/mcp', { body: listTools })).status).toBe(401);
    expect((await running.ask('POST', '/mcp', { as: 'wrong', body: listTools })).status).toBe(401);
  });

  test('a page of another site and a host of another name are refused', async () => {
    expect(
      (
        await running.ask('POST', '/mcp', {
          as: running.alice,
          body: listTools,
          headers: { origin: 'https://evil.example' },
        })
      ).status,
    ).toBe(403);
    const request = [
      'POST /mcp HTTP/1.1',
      'Host: evil.example',
      `Authorization: Bearer ${running.alice}`,
      'Content-Length: 0',
      'Connection: close',
      '',
      '',
    ].join('\r\n');
    expect(await running.bytes(request)).toMatch(/^HTTP\/1\.1 403 /);
  });

  test('a read-only token can recall but not remember', async () => {
    await running.stoa.data.set(operatorCaller('alice'), 'default', 'shared', 'text');
    expect(
      (await callOnce(running.reader, 'recall', { key: 'shared' })).result.structuredContent.items[0].value,
    ).toBe('text');
    const refused = await callOnce(running.reader, 'remember', { key: 'shared', value: 'changed' });
    expect(refused.result.isError).toBe(true);
    expect(JSON.parse(refused.result.content[0].text).error.code).toBe('forbidden');
  });

  test.each(generations)('users do not see each other (%s)', async (generation) => {
    const alice = await TestClient.connect(running.url, running.alice, generation);
    const bob = await TestClient.connect(running.url, running.bob, generation);
    const key = `secret-${generation}`;
    await alice.ok('remember', { key, value: 'hers' });
    const task = (await alice.ok('tasks', { action: 'create', command: 'hers' })).tasks[0];
    await alice.ok('agents', { action: 'register', name: 'hers' });
    expect((await bob.ok('recall', { key })).missing).toEqual([key]);
    expect((await bob.call('tasks', { action: 'get', task: task.id })).value.code).toBe('not_found');
    expect(await bob.ok('work', { action: 'claim' })).toEqual({ task: null });
    const seen = (await bob.ok('agents')).agents as { name: string }[];
    expect(seen.some(({ name }) => name === 'hers')).toBe(false);
    const listed = await allResources(bob);
    expect(listed.some((uri) => uri.includes(key))).toBe(false);
    await expect(bob.client.readResource({ uri: `stoa://data/default/${key}` })).rejects.toThrow();
    await Promise.all([alice.close(), bob.close()]);
  });

  test('the operator acts for the user "default" unless it names one', async () => {
    await callOnce(running.operator, 'remember', { key: 'whose', value: 'default' });
    expect(await running.stoa.data.get(operatorCaller('default'), 'default', 'whose')).toBe('default');
    const { result } = await callOnce(running.operator, 'agents', {});
    expect(result.structuredContent.agents).toEqual([]);
  });

  test('a token for some namespaces reaches no other', async () => {
    const { token } = await running.stoa.identity.createToken(
      operatorCaller(),
      'alice',
      { scopes: { write: true, namespaces: ['open'] } },
      null,
    );
    expect(
      (await callOnce(token, 'remember', { key: 'k', value: 1, namespace: 'open' })).result.isError,
    ).toBeUndefined();
    expect(
      JSON.parse((await callOnce(token, 'recall', { key: 'shared' })).result.content[0].text).error.code,
    ).toBe('forbidden');
  });
});

describe('sessions', () => {
  test('belong to the caller who opened them', async () => {
    const session = await openSession(running.alice);
    expect(await inSession(session, running.alice)).toBe(200);
    expect(await inSession(session, running.bob)).toBe(404);
    expect(await inSession(session, running.reader)).toBe(404);
  });

  test('end when the client says so', async () => {
    const session = await openSession(running.alice);
    expect(
      (await running.ask('DELETE', '/mcp', { as: running.alice, headers: { 'mcp-session-id': session } }))
        .status,
    ).toBeLessThan(300);
    expect(await inSession(session, running.alice)).toBe(404);
  });

  test('are limited per user: the longest idle one ends', async () => {
    const sessions = [];
    for (let index = 0; index < 4; index += 1) sessions.push(await openSession(running.bob));
    const statuses = [];
    for (const session of sessions) statuses.push(await inSession(session, running.bob));
    expect(statuses).toEqual([404, 200, 200, 200]);
  });

  test('end after a long idle time', async () => {
    const short = await Running.start({ limits: { mcpSessionIdleSeconds: 0.05 } });
    try {
      const reply = await short.ask('POST', '/mcp', {
        as: short.alice,
        body: initialize,
        headers: { accept },
      });
      const session = reply.headers.get('mcp-session-id') ?? '';
      expect(session).not.toBe('');
      // Each look is a use: the next one comes when the session has been idle for long enough.
      await eventually(async () => {
        const { status } = await short.ask('POST', '/mcp', {
          as: short.alice,
          body: listTools,
          headers: { accept, 'mcp-session-id': session },
        });
        expect(status).toBe(404);
      }, 200);
    } finally {
      await short.stop();
    }
  });

  test('are not needed for a single call', async () => {
    expect((await callOnce(running.alice, 'list', {})).result.structuredContent).toHaveProperty('items');
  });
});

describe('subscriptions', () => {
  const uris = ['a', 'b', 'c'].map((key) => `stoa://data/default/${key}`);

  test('are limited per client, in both generations of the protocol', async () => {
    const legacy = await TestClient.connect(running.url, running.alice, 'legacy');
    for (const uri of uris.slice(0, 2)) await legacy.client.subscribeResource({ uri });
    await expect(legacy.client.subscribeResource({ uri: String(uris[2]) })).rejects.toThrow(
      /has 3 subscriptions, which exceeds 2/,
    );
    const modern = await TestClient.connect(running.url, running.alice, 'modern');
    await expect(modern.client.listen({ resourceSubscriptions: uris })).rejects.toThrow();
    expect((await modern.ok('list')).items).toEqual(expect.any(Array));
    await Promise.all([legacy.close(), modern.close()]);
  });

  test('end with the token that made them', async () => {
    const { token, token_id: tokenId } = await running.stoa.identity.createToken(
      operatorCaller(),
      'alice',
      {},
      null,
    );
    const session = await openSession(token);
    const stream = await fetch(`${running.url}/mcp`, {
      headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream', 'mcp-session-id': session },
    });
    expect(stream.status).toBe(200);
    expect(
      await inSession(session, token, {
        jsonrpc: '2.0',
        id: 2,
        method: 'resources/subscribe',
        params: { uri: uris[0] },
      }),
    ).toBe(200);
    await running.stoa.identity.revokeTokens(operatorCaller(), 'alice', tokenId);
    await running.stoa.data.set(operatorCaller('alice'), 'default', 'a', 'after the end');
    expect(await stream.text()).not.toContain('resources/updated');
    expect(await inSession(session, token)).toBe(401);
  });
});

describe('hostile requests', () => {
  test.each([
    ['no JSON', '{"jsonrpc":', 400],
    ['nothing', '', 400],
    ['a number', '7', 400],
    ['deep nesting', `${'['.repeat(5_000)}${']'.repeat(5_000)}`, 400],
    ['a prototype', '{"jsonrpc":"2.0","id":1,"method":"tools/list","__proto__":{"a":1}}', 400],
    ['bytes that are no text', Buffer.from([0xff, 0xfe, 0x7b]), 400],
  ])('%s is refused', async (_what, raw, status) => {
    const reply = await running.ask('POST', '/mcp', {
      as: running.alice,
      raw: typeof raw === 'string' ? raw : new Uint8Array(raw),
      headers: { accept, 'content-type': 'application/json' },
    });
    expect(reply.status, reply.text).toBe(status);
    expect(reply.json.error.code).toBeLessThan(0);
  });

  test('a body of another type is refused', async () => {
    expect(
      (
        await running.ask('POST', '/mcp', {
          as: running.alice,
          raw: JSON.stringify(listTools),
          headers: { accept, 'content-type': 'text/plain' },
        })
      ).status,
    ).toBe(415);
  });

  test('an unknown tool is a protocol error', async () => {
    expect((await callOnce(running.alice, 'no-such-tool', {})).error.code).toBe(-32_602);
    expect((await callOnce(running.alice, '__proto__', {})).error.code).toBe(-32_602);
  });

  test('wrong input is an answer that names the fields', async () => {
    const { result } = await callOnce(running.alice, 'remember', { key: 7, valu: 1 });
    const { error } = JSON.parse(result.content[0].text);
    expect(error.code).toBe('invalid_request');
    expect(error.details.errors.map(({ field }: { field: string }) => field).toSorted()).toEqual([
      'key',
      'valu',
      'value',
    ]);
  });

  test.each(['../../v1/status', '/', '~', '..', '%2e%2e', 'a\u0000b', '💥', '\ud800'])(
    'the key %j is stored as it is, or refused',
    async (key) => {
      const stored = await callOnce(running.alice, 'remember', { key, value: key, namespace: 'hostile' });
      if (stored.result.isError === true) {
        expect(JSON.parse(stored.result.content[0].text).error.code).toMatch(/invalid|too_large/);
        return;
      }
      const { result } = await callOnce(running.alice, 'recall', { key, namespace: 'hostile' });
      expect(result.structuredContent.items[0].value).toBe(key);
    },
  );

  test('a value that is too large is refused and named', async () => {
    const { result } = await callOnce(running.alice, 'remember', {
      key: 'large',
      value: 'x'.repeat(2_000_000),
    });
    expect(JSON.parse(result.content[0].text).error.code).toBe('too_large');
  });

  test('an internal error is reported to the operator, and its cause is hidden from the caller', async () => {
    const failing = vi
      .spyOn(running.stoa.data, 'listNamespaces')
      .mockRejectedValueOnce(new Error('password=hunter2'));
    const { result } = await callOnce(running.alice, 'list', {});
    failing.mockRestore();
    expect(faults).toEqual(['an MCP call: password=hunter2']);
    expect(result.content[0].text).not.toContain('hunter2');
    expect(JSON.parse(result.content[0].text).error.code).toBe('internal');
  });
});

async function allResources(client: TestClient): Promise<string[]> {
  const uris: string[] = [];
  let cursor: string | undefined;
  do {
    const page = await client.client.listResources(cursor === undefined ? {} : { cursor });
    uris.push(...page.resources.map(({ uri }) => uri));
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return uris;
}
