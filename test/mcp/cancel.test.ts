/** A call that waits ends on the server as soon as its caller no longer wants it. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { globalRoomId } from '../../src/messaging/identities/uuid.js';
import { Running } from '../server/running.js';
import { TestClient, generations } from './client.js';
import { eventually } from '../until.js';

const accept = 'application/json, text/event-stream';
let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

/** Waits for a message in the far future, for the longest allowed time. */
const waitingRead = { room: globalRoomId, after: '2255-03-14T16:00:00Z', wait_seconds: 60 };

/** The waits that have begun on the server, and how each ended. */
function watchWaits() {
  const waits = vi.spyOn(running.stoa.messaging.hub, 'wait');
  return {
    begun: () => eventually(() => expect(waits).toHaveBeenCalled()),
    /** Far sooner than the end of the wait. */
    ended: () =>
      eventually(() => expect(waits.mock.settledResults.map(({ type }) => type)).toEqual(['fulfilled'])),
    restore: () => waits.mockRestore(),
  };
}

describe.each(generations)('a client of the %s protocol', (generation) => {
  test('cancels a waiting read and continues', async () => {
    const client = await TestClient.connect(running.url, running.alice, generation);
    const waits = watchWaits();
    const stop = new AbortController();
    const reading = client.client.callTool({ name: 'read', arguments: waitingRead }, { signal: stop.signal });
    await waits.begun();
    stop.abort();
    await expect(reading).rejects.toThrow();
    await waits.ended();
    waits.restore();
    expect((await client.ok('list')).items).toEqual(expect.any(Array));
    await client.close();
  });

  test('cancels a waiting claim, and the task goes to another client', async () => {
    const client = await TestClient.connect(running.url, running.alice, generation);
    const claims = vi.spyOn(running.stoa.workspaces, 'claimTask');
    const stop = new AbortController();
    const claiming = client.client.callTool(
      { name: 'work', arguments: { action: 'claim', project: `waiting-${generation}`, wait_seconds: 60 } },
      { signal: stop.signal },
    );
    await eventually(() => expect(claims).toHaveBeenCalled());
    stop.abort();
    await expect(claiming).rejects.toThrow();
    await eventually(() => expect(claims.mock.settledResults).toHaveLength(1));
    claims.mockRestore();
    const other = await TestClient.connect(running.url, running.alice, generation);
    await other.ok('tasks', { action: 'create', project: `waiting-${generation}`, command: 'wanted' });
    expect(
      (await other.ok('work', { action: 'claim', project: `waiting-${generation}`, wait_seconds: 5 })).task,
    ).toMatchObject({ command: 'wanted', attempts: 0 });
    await Promise.all([client.close(), other.close()]);
  });
});

test('the exchange of a cancelled request ends without an answer, and its session is idle again', async () => {
  const opened = await running.ask('POST', '/mcp', {
    as: running.alice,
    headers: { accept },
    body: {
      jsonrpc: '2.0',
      id: 0,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'raw', version: '1' } },
    },
  });
  const headers = {
    accept,
    'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
    'mcp-protocol-version': '2025-06-18',
  };
  const waits = watchWaits();
  const reading = running.ask('POST', '/mcp', {
    as: running.alice,
    headers,
    body: { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'read', arguments: waitingRead } },
  });
  await waits.begun();
  const cancelled = await running.ask('POST', '/mcp', {
    as: running.alice,
    headers,
    body: { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } },
  });
  expect(cancelled.status).toBe(202);
  expect(await reading).toMatchObject({ status: 202, text: '' });
  await waits.ended();
  waits.restore();
  // The id can be used again, and a second cancellation does no harm.
  const again = await running.ask('POST', '/mcp', {
    as: running.alice,
    headers,
    body: { jsonrpc: '2.0', id: 7, method: 'tools/list' },
  });
  expect(again.json).toMatchObject({ id: 7, result: { tools: expect.any(Array) } });
});

test('a single request without a session ends when its caller disconnects', async () => {
  const waits = watchWaits();
  const stop = new AbortController();
  const reading = fetch(new URL('/mcp', running.url), {
    method: 'POST',
    signal: stop.signal,
    headers: { authorization: `Bearer ${running.alice}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'read', arguments: waitingRead },
    }),
  });
  await waits.begun();
  stop.abort();
  await expect(reading).rejects.toThrow();
  await waits.ended();
  waits.restore();
});
