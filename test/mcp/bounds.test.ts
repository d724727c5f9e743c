/** The size of an answer is bounded, however much is stored. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { Running } from '../server/running.js';
import { TestClient } from './client.js';

const alice = operatorCaller('alice');
let running: Running;
let client: TestClient;
beforeAll(async () => {
  running = await Running.start({
    limits: { mcpAnswerBytesMax: 3_000, mcpBatchMax: 3, postsPerMinuteMax: 2 },
  });
  client = await TestClient.connect(running.url, running.alice, 'legacy');
  for (let index = 0; index < 10; index += 1)
    await running.stoa.data.set(alice, 'large', `k${index}`, 'x'.repeat(1_000));
});
afterAll(async () => {
  await client.close();
  await running.stop();
});

test('a list with values ends early, and its cursor continues without a gap or a repeat', async () => {
  const keys: string[] = [];
  let cursor: string | undefined;
  let pages = 0;
  do {
    const page = await client.ok('list', {
      namespace: 'large',
      values: true,
      ...(cursor !== undefined && { cursor }),
    });
    expect(page.items.length).toBeLessThanOrEqual(3);
    keys.push(...page.items.map(({ key }: { key: string }) => key));
    cursor = page.next_cursor ?? undefined;
    pages += 1;
  } while (cursor !== undefined);
  expect(keys).toEqual(Array.from({ length: 10 }, (_, index) => `k${index}`));
  expect(pages).toBe(4);
});

test('recall of too many bytes is refused with the keys that fit; one key is always recalled', async () => {
  const { isError, value } = await client.call('recall', {
    namespace: 'large',
    key: ['k0', 'none', 'k1', 'k2', 'k3'],
  });
  expect([isError, value.code, value.details.fitting]).toEqual([true, 'too_large', ['k0', 'k1']]);
  expect(value.fix).toContain('fewer');
  await running.stoa.data.set(alice, 'large', 'giant', 'x'.repeat(10_000));
  expect((await client.ok('recall', { namespace: 'large', key: 'giant' })).items[0].value).toHaveLength(
    10_000,
  );
});

test('long outputs are shortened in the list of tasks, and complete for one task', async () => {
  const { id } = (await client.ok('tasks', { action: 'create', command: 'say much' })).tasks[0];
  const { fence } = await client.ok('work', { action: 'claim' });
  await client.ok('work', { action: 'complete', task: id, fence, output: 'y'.repeat(50_000) });
  const [listed] = (await client.ok('tasks', { action: 'list' })).tasks;
  expect(listed.output.length).toBeLessThan(1_100);
  expect(listed.output).toContain('50000 characters; get shows all');
  expect((await client.ok('tasks', { action: 'get', task: id })).tasks[0].output).toHaveLength(50_000);
});

test('a commit with a large answer omits the values', async () => {
  const operations = Array.from({ length: 4 }, (_, index) => ({
    op: 'data.append',
    key: `list-${index}`,
    items: ['z'.repeat(1_000)],
  }));
  const { ok, results } = await client.ok('commit', { operations });
  expect([
    ok,
    results.map(({ version, value }: { version: number; value?: unknown }) => [version, value]),
  ]).toEqual([true, operations.map(() => [1, undefined])]);
  const [again] = (await client.ok('commit', { operations: operations.slice(0, 1) })).results;
  expect(again).not.toHaveProperty('value');
  expect(again.version).toBe(2);
});

test('a request with too many messages is refused whole', async () => {
  const body = Array.from({ length: 4 }, (_, id) => ({ jsonrpc: '2.0', id, method: 'tools/list' }));
  const refused = await running.ask('POST', '/mcp', { as: running.alice, body });
  expect([refused.status, refused.json.error.code]).toEqual([400, -32_600]);
  expect(
    (await running.ask('POST', '/mcp', { as: running.alice, body: body.slice(0, 3) })).json,
  ).toHaveLength(3);
});

const listen = (count: number) =>
  running.ask('POST', '/mcp', {
    as: running.alice,
    headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'subscriptions/listen' },
    body: {
      jsonrpc: '2.0',
      id: 7,
      method: 'subscriptions/listen',
      params: {
        notifications: {
          resourceSubscriptions: Array.from({ length: count }, (_, index) => `stoa://data/n/k${index}`),
        },
        _meta: {
          'io.modelcontextprotocol/protocolVersion': '2026-07-28',
          'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
          'io.modelcontextprotocol/clientCapabilities': {},
        },
      },
    },
  });

test('a client that listens names at most as many resources as it may subscribe to', async () => {
  const refused = await listen(1_001);
  expect([refused.status, refused.json.id, refused.json.error.code]).toEqual([400, 7, -32_602]);
  expect(refused.json.error.message).toContain(
    '1,001 resources to subscribe to, which exceeds 1,000 (mcpSubscriptionsMax)',
  );
  const open = await listen(1_000);
  expect([open.status, open.headers.get('content-type')]).toEqual([
    200,
    expect.stringContaining('event-stream'),
  ]);
});

test("the posts of a user's agent are limited, those of the operator are not", async () => {
  const said = { room: 'global', text: 'hello' };
  const operator = await TestClient.connect(running.url, running.operator, 'legacy');
  try {
    for (let posts = 0; posts < 3; posts += 1) await operator.ok('post', said);
  } finally {
    await operator.close();
  }
  for (let posts = 0; posts < 2; posts += 1) await client.ok('post', said);
  const { isError, value } = await client.call('post', said);
  expect([isError, value.code]).toEqual([true, 'rate_limited']);
});

const names = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`name-${index}`, 0]));
const call = (params: object) => ({ method: 'tools/call', params: { name: 'remember', ...params } });

test('a request with very many values beside its arguments is refused before the protocol looks at them', async () => {
  const send = (message: object) =>
    running.ask('POST', '/mcp', {
      as: running.alice,
      headers: { accept: 'application/json, text/event-stream', 'content-type': 'application/json' },
      body: { jsonrpc: '2.0', id: 1, ...message },
    });
  const many = names(10_000);
  const input = { namespace: 'wide', key: 'k', value: many };
  expect((await send(call({ arguments: input }))).status).toBe(200);
  expect(await running.stoa.data.get(alice, 'wide', 'k')).toEqual(many);
  for (const message of [
    call({ arguments: many }),
    call({ arguments: [many] }),
    call({ arguments: {}, _meta: many }),
    { method: 'nothing', params: { deep: { deeper: many } } },
    { method: 'nothing', ...many },
    { result: many },
    { method: 'initialize', params: { capabilities: { experimental: many } } },
    { method: 'x'.repeat(10_000_000) },
  ]) {
    const { status, text } = await send(message);
    expect([status, text.length < 1_000]).toEqual([413, true]);
    expect(text).toContain('mcpMessageValuesMax');
  }
});
