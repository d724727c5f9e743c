/** Sessions of the protocol of 2025 behind a balancer without stickiness: any server answers any request. */
import postgres from 'postgres';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { readEvents } from '../../src/cli/connection/answers.js';
import { operatorCaller } from '../../src/core/caller.js';
import { Running } from '../server/running.js';
import { startGate } from '../servers/gate.js';
import { sharedHome } from '../servers/shared.js';
import { eventually } from '../until.js';

const accept = 'application/json, text/event-stream';
const protocolVersion = '2025-06-18';
const alice = operatorCaller('alice');
const listTools = { jsonrpc: '2.0', id: 1, method: 'tools/list' };

let a: Running;
let b: Running;
let databaseUrl: string;
let home: Awaited<ReturnType<typeof sharedHome>>['options'];
beforeAll(async () => {
  const { options } = await sharedHome();
  const limits = { mcpSessionsPerUserMax: 4, mcpSubscriptionsMax: 2, mcpSessionIdleSeconds: 8 };
  home = options;
  databaseUrl = options.postgres;
  a = await Running.start({ ...options, limits });
  b = await Running.start({ ...options, limits });
});
afterAll(() => Promise.all([a.stop(), b.stop()]));

async function openSession(server: Running, as: string): Promise<string> {
  const body = {
    jsonrpc: '2.0',
    id: 0,
    method: 'initialize',
    params: { protocolVersion, capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
  };
  const reply = await server.ask('POST', '/mcp', { as, body, headers: { accept } });
  expect(reply.status, reply.text).toBe(200);
  return reply.headers.get('mcp-session-id') ?? '';
}

function say(server: Running, session: string, as: string, body: object = listTools) {
  const headers = { accept, 'mcp-session-id': session, 'mcp-protocol-version': protocolVersion };
  return server.ask('POST', '/mcp', { as, body, headers });
}

const call = (id: number, name: string, input: object) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: input },
});
const uriOf = (key: string) => `stoa://data/default/${key}`;
const subscribe = (key: string) => ({
  jsonrpc: '2.0',
  id: `to ${key}`,
  method: 'resources/subscribe',
  params: { uri: uriOf(key) },
});

/** The stream of a session at a server: the keys it reported, until it ends. */
async function openStream(server: Running, session: string, as: string) {
  const stop = new AbortController();
  const response = await fetch(`${server.url}/mcp`, {
    signal: stop.signal,
    headers: { authorization: `Bearer ${as}`, accept: 'text/event-stream', 'mcp-session-id': session },
  });
  expect(response.status).toBe(200);
  const keys: string[] = [];
  const read = async (): Promise<void> => {
    for await (const { data } of readEvents(response.body ?? expect.fail('no stream'))) {
      const { params } = JSON.parse(data) as { params?: { uri?: string } };
      if (params?.uri !== undefined) keys.push(params.uri.slice(uriOf('').length));
    }
  };
  const ended = read().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error;
  });
  return {
    keys,
    ended,
    close: async () => {
      stop.abort();
      await ended;
    },
  };
}

describe('a session that one server opened', () => {
  test('can be used at another server, only by its owner', async () => {
    const session = await openSession(a, a.alice);
    expect((await say(b, session, b.alice)).status).toBe(404);
    expect((await say(b, session, a.alice)).status).toBe(200);
    expect((await say(b, session, a.bob)).status).toBe(404);
    // The session is the same agent, named after the program, as at the server that opened it.
    await say(b, session, a.alice, call(2, 'remember', { key: 'named', value: 1 }));
    await say(a, session, a.alice, call(3, 'remember', { key: 'named', value: 2 }));
    const named = await a.stoa.data.getRecord(alice, 'default', 'named');
    expect(named).toMatchObject({
      createdByAgent: expect.stringMatching(/^raw-[a-z]+(-[\da-f]{12})?$/),
      updatedByAgent: named?.createdByAgent,
      version: 2,
    });
  });

  test('has its stream at one server and subscribes at another', async () => {
    const session = await openSession(a, a.alice);
    const stream = await openStream(a, session, a.alice);
    expect((await say(b, session, a.alice, subscribe('one'))).status).toBe(200);
    // Written before the server with the stream can know of the subscription.
    await b.stoa.data.set(alice, 'default', 'one', 1);
    await eventually(() => expect(stream.keys).toContain('one'));
    await say(a, session, a.alice, subscribe('two'));
    const before = stream.keys.length;
    await b.stoa.data.set(alice, 'default', 'two', 1);
    await b.stoa.data.set(alice, 'default', 'one', 2);
    // The first change can be told again, because the subscription reached the server with the stream late.
    await eventually(() => expect(stream.keys.slice(before).slice(-2)).toEqual(['two', 'one']));
    await say(b, session, a.alice, {
      ...subscribe('one'),
      method: 'resources/unsubscribe',
    });
    await eventually(async () => {
      const told = stream.keys.length;
      await b.stoa.data.set(alice, 'default', 'one', 3);
      await b.stoa.data.set(alice, 'default', 'two', 3);
      await eventually(() => expect(stream.keys.slice(told)).toContain('two'));
      expect(stream.keys.slice(told)).toEqual(['two']);
    });
    await stream.close();
  });

  test('hears of changes that came while it had no stream, at whichever server it opens the next', async () => {
    const session = await openSession(a, a.alice);
    const first = await openStream(a, session, a.alice);
    await say(a, session, a.alice, subscribe('missed'));
    await first.close();
    await a.stoa.data.set(alice, 'default', 'missed', 1);
    for (const server of [b, a]) {
      const stream = await openStream(server, session, a.alice);
      await eventually(() => expect(stream.keys).toEqual(['missed']));
      await stream.close();
    }
  });

  test('ends everywhere when it is ended at one', async () => {
    const session = await openSession(a, a.alice);
    const stream = await openStream(a, session, a.alice);
    expect((await say(a, session, a.alice)).status).toBe(200);
    const ended = await b.ask('DELETE', '/mcp', { as: a.alice, headers: { 'mcp-session-id': session } });
    expect(ended.status).toBeLessThan(300);
    await stream.ended;
    expect((await say(b, session, a.alice)).status).toBe(404);
    expect((await say(a, session, a.alice)).status).toBe(404);
  });

  test('cancels a call at another server than the one that runs it', async () => {
    const session = await openSession(a, a.alice);
    const claims = vi.spyOn(a.stoa.workspaces, 'claimTask');
    const claim = { action: 'claim', project: 'waiting', wait_seconds: 60 };
    const claiming = say(a, session, a.alice, call(7, 'work', claim));
    await eventually(() => expect(claims).toHaveBeenCalled());
    const cancel = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } };
    expect((await say(b, session, a.alice, cancel)).status).toBe(202);
    expect(await claiming).toMatchObject({ status: 202, text: '' });
    await eventually(() => expect(claims.mock.settledResults).toHaveLength(1));
    // The same id again: the old cancellation does not end the new call, though the session changes
    // meanwhile.
    const again = say(a, session, a.alice, call(7, 'work', { ...claim, wait_seconds: 2 }));
    await eventually(() => expect(claims).toHaveBeenCalledTimes(2));
    await say(b, session, a.alice, subscribe('meanwhile'));
    expect((await again).json).toMatchObject({ id: 7, result: { structuredContent: { task: null } } });
    claims.mockRestore();
  });

  test('ends after a long idle time, and an open stream is a use', async () => {
    const [idle, streaming] = [await openSession(a, a.alice), await openSession(a, a.alice)];
    const stream = await openStream(b, streaming, a.alice);
    const sql = postgres(databaseUrl);
    try {
      // Removed by a sweep: no request asks for it.
      await eventually(
        async () => expect(await sql`SELECT FROM cluster.mcp_sessions WHERE id = ${idle}`).toHaveLength(0),
        500,
      );
      expect((await say(b, idle, a.alice)).status).toBe(404);
      expect((await say(a, streaming, a.alice)).status).toBe(200);
    } finally {
      await stream.close();
      await sql.end();
    }
  }, 90_000);
});

test('a stream stays open while the database is away, and goes on when it is back', async () => {
  const gate = await startGate(databaseUrl);
  const c = await Running.start({
    ...home,
    postgres: gate.url,
    limits: { streamHeartbeatSeconds: 0.2, backendRequestSecondsMax: 1 },
    onError: () => undefined,
  });
  try {
    const session = await openSession(c, c.alice);
    const stream = await openStream(c, session, c.alice);
    await say(c, session, c.alice, subscribe('away'));
    const failed = vi.spyOn(c.stoa.changes, 'follow');
    await gate.close();
    await b.stoa.data.set(alice, 'default', 'away', 1);
    await eventually(() => expect(failed).toHaveBeenCalled());
    expect(stream.keys).toEqual([]);
    await gate.open();
    await eventually(() => expect(stream.keys).toEqual(['away']));
    await stream.close();
  } finally {
    await c.stop();
    await gate.close();
  }
});

describe('over all servers', () => {
  test('sessions of a user are limited: the longest idle one ends', async () => {
    const sessions: string[] = [];
    for (const server of [a, b, a, b, a]) sessions.push(await openSession(server, b.bob));
    const statuses = await Promise.all(
      [b, a].map(async (server) => {
        const answers = [];
        for (const session of sessions) answers.push((await say(server, session, b.bob)).status);
        return answers;
      }),
    );
    expect(statuses).toEqual([
      [404, 200, 200, 200, 200],
      [404, 200, 200, 200, 200],
    ]);
  });

  test('of sessions that are opened at once, as many stay as the limit says', async () => {
    const opened = await Promise.all([a, b, a, b, a, b, a, b].map((server) => openSession(server, b.bob)));
    // A server looks at the sessions that it holds once a second.
    await eventually(async () => {
      const replies = await Promise.all(opened.map((session) => say(a, session, b.bob)));
      expect(replies.filter(({ status }) => status === 200)).toHaveLength(4);
    });
  });

  test('subscriptions of a session are limited', async () => {
    const session = await openSession(a, a.alice);
    for (const [server, key] of [
      [a, 'x'],
      [b, 'y'],
      [b, 'x'],
    ] as const)
      expect((await say(server, session, a.alice, subscribe(key))).json.error).toBeUndefined();
    expect((await say(a, session, a.alice, subscribe('z'))).json.error.message).toMatch(
      /has 3 subscriptions, which exceeds 2 \(mcpSubscriptionsMax\)/,
    );
    const long = (await say(a, session, a.alice, subscribe('k'.repeat(9_000)))).json;
    expect(long.error.message).toMatch(/exceeds 8,192 \(mcpResourceUriCharactersMax\)/);
    expect((await say(a, session, a.alice, subscribe('\0'))).json.error.message).toMatch(/Unknown resource/);
  });

  test('the table of sessions holds no credentials', async () => {
    await openSession(a, a.alice);
    const sql = postgres(databaseUrl);
    try {
      const rows = await sql<{ row: string }[]>`SELECT s::text AS row FROM cluster.mcp_sessions s`;
      expect(rows.length).toBeGreaterThan(0);
      expect(rows.filter(({ row }) => row.includes(a.alice))).toEqual([]);
    } finally {
      await sql.end();
    }
  });
});
