/** A server that stops answers the calls that wait, before it closes their connections. */
import { describe, expect, test, vi } from 'vitest';
import { Running } from '../server/running.js';
import { TestClient, generations } from './client.js';

const soon = { wait_seconds: 50 };
const waiting = [
  {
    tool: 'read',
    input: { room: 'global', after: '2255-03-14T16:00:00Z', ...soon },
    answer: { messages: [] },
  },
  { tool: 'read', input: { inbox: true, ...soon }, answer: { messages: [] } },
  { tool: 'work', input: { action: 'claim', project: 'none', ...soon }, answer: { task: null } },
  { tool: 'lock', input: { action: 'acquire', name: 'held', ...soon }, answer: { code: 'conflict' } },
];

describe.each([...generations, 'once'] as const)('a client of the %s protocol', (generation) => {
  test('gets an answer to each call that waits', async () => {
    const running = await Running.start();
    const { locks, messaging, workspaces } = running.stoa;
    await running.ask('PUT', '/v1/locks/held', { as: running.alice, headers: { 'stoa-agent': 'other' } });
    const client =
      generation === 'once'
        ? undefined
        : await TestClient.connect(running.url, running.alice, generation, { 'stoa-agent': 'waiter' });
    const begun = [
      vi.spyOn(messaging.hub, 'wait'),
      vi.spyOn(messaging.direct, 'firstInbox'),
      vi.spyOn(workspaces, 'claimTask'),
      vi.spyOn(locks, 'acquire'),
    ];
    const calls = waiting.map(async ({ tool, input }) =>
      client === undefined ? callOnce(running, tool, input) : (await client.call(tool, input)).value,
    );
    for (const waits of begun) await vi.waitFor(() => expect(waits).toHaveBeenCalled(), { timeout: 10_000 });
    await running.app.close();
    for (const [index, { answer }] of waiting.entries()) expect(await calls[index]).toMatchObject(answer);
    await running.stoa.close();
  });
});

async function callOnce(running: Running, name: string, input: object): Promise<unknown> {
  const { json } = await running.ask('POST', '/mcp', {
    as: running.alice,
    headers: { accept: 'application/json, text/event-stream', 'stoa-agent': 'waiter' },
    body: { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: input } },
  });
  const value = JSON.parse(json.result.content[0].text) as { error?: unknown };
  return value.error ?? value;
}
