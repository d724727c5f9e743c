import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toolList } from '../../src/mcp/tools/index.js';
import { Running } from '../server/running.js';
import { TestClient, generations } from './client.js';

let running: Running;
beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

describe('the list of tools', () => {
  test('has at most 12 tools in at most 16,000 bytes', () => {
    expect(toolList().length).toBeLessThanOrEqual(12);
    expect(Buffer.byteLength(JSON.stringify({ tools: toolList() }))).toBeLessThanOrEqual(16_000);
  });

  test('describes the purpose, input, output and read-only hint of every tool', () => {
    for (const { description, inputSchema, outputSchema, annotations } of toolList()) {
      expect(description.length).toBeGreaterThan(50);
      expect(inputSchema.type).toBe('object');
      expect(outputSchema.type).toBe('object');
      expect(typeof annotations.readOnlyHint).toBe('boolean');
    }
  });
});

describe.each(generations)('a client of the %s protocol', (generation) => {
  const namespace = `tools-${generation}`;
  let client: TestClient;
  beforeAll(async () => {
    client = await TestClient.connect(running.url, running.alice, generation, { 'stoa-agent': 'scout' });
  });
  afterAll(() => client.close());

  test('sees the tools as they are listed', async () => {
    const { tools } = await client.client.listTools();
    expect(tools.map(({ name }) => name)).toEqual([
      'remember',
      'recall',
      'list',
      'forget',
      'tasks',
      'work',
      'post',
      'read',
      'find',
      'lock',
      'agents',
      'commit',
    ]);
  });

  test('locks a name, and sees who holds it', async () => {
    const name = `src/${generation}.ts`;
    expect(await client.ok('lock', { action: 'acquire', name, note: 'test' })).toMatchObject({
      locks: [{ name, holder: 'scout', note: 'test', fence: expect.any(Number) }],
    });
    const other = await TestClient.connect(running.url, running.alice, generation, { 'stoa-agent': 'other' });
    try {
      expect(await other.call('lock', { action: 'acquire', name })).toMatchObject({
        value: { code: 'conflict', details: { holder: 'scout', name } },
      });
      expect(await other.ok('lock', { action: 'list', name: 'src/' })).toMatchObject({ locks: [{ name }] });
    } finally {
      await other.close();
    }
    expect(await client.ok('lock', { action: 'release', name })).toMatchObject({ released: true });
    expect(await client.call('lock', { action: 'acquire' })).toMatchObject({
      value: { code: 'invalid_request' },
    });
  });

  test('remembers and recalls, with version and author', async () => {
    expect(
      await client.ok('remember', {
        key: 'plan',
        value: { steps: ['a'] },
        namespace,
        metadata: { why: 'test' },
      }),
    ).toMatchObject({ key: 'plan', version: 1 });
    const { items, missing } = await client.ok('recall', { key: ['plan', 'nothing'], namespace });
    expect(items).toMatchObject([
      {
        key: 'plan',
        value: { steps: ['a'] },
        version: 1,
        createdByAgent: 'scout',
        updatedByAgent: 'scout',
        metadata: { why: 'test' },
      },
    ]);
    expect(missing).toEqual(['nothing']);
  });

  test('a search says whether it has looked at everything', async () => {
    const letters = 'abcdefghijklmnopqrst';
    const words = Array.from(
      { length: 300 },
      (_, at) => `otter${letters[Math.floor(at / 20)]}${letters[at % 20]}`,
    );
    await client.ok('remember', { key: 'otters', value: words.join(' '), namespace });
    for (const [query, isAll] of [
      ['otteraa', true],
      ['otter*', false],
    ] as const)
      expect(await client.ok('find', { query, namespace })).toMatchObject({
        items: [{ id: 'otters' }],
        examined_all: isAll,
      });
  });

  test('a stored null is a value, not something missing', async () => {
    expect(
      await client.ok('remember', { key: 'brief', value: 1, namespace, expires_at: '2099-01-01T00:00:00Z' }),
    ).toMatchObject({ version: 1 });
    expect(await client.ok('recall', { key: 'brief', namespace })).toMatchObject({
      items: [{ expiresAt: '2099-01-01T00:00:00.000Z' }],
    });
    await client.ok('forget', { key: 'brief', namespace });
    await client.ok('remember', { key: 'null', value: null, namespace });
    expect(await client.ok('recall', { key: 'null', namespace })).toMatchObject({
      items: [{ key: 'null', value: null }],
      missing: [],
    });
  });

  test('adds, appends and merges in one step', async () => {
    expect((await client.ok('remember', { key: 'count', value: 2, how: 'add', namespace })).value).toBe(2);
    expect((await client.ok('remember', { key: 'count', value: 3, how: 'add', namespace })).value).toBe(5);
    expect(
      (await client.ok('remember', { key: 'log', value: 'one', how: 'append', namespace })).value,
    ).toEqual(['one']);
    expect(
      (await client.ok('remember', { key: 'log', value: ['two', 'three'], how: 'append', namespace })).value,
    ).toEqual(['one', 'two', 'three']);
    await client.ok('remember', { key: 'object', value: { a: 1, b: 2 }, namespace });
    expect(
      (await client.ok('remember', { key: 'object', value: { b: null, c: 3 }, how: 'merge', namespace }))
        .value,
    ).toEqual({ a: 1, c: 3 });
  });

  test('gets a version conflict with the same code as HTTP', async () => {
    await client.ok('remember', { key: 'contested', value: 1, namespace });
    const { isError, value } = await client.call('remember', {
      key: 'contested',
      value: 2,
      namespace,
      if_version: 0,
    });
    expect(isError).toBe(true);
    expect(value).toMatchObject({ code: 'version_conflict' });
    expect((await client.ok('recall', { key: 'contested', namespace })).items[0].value).toBe(1);
  });

  test('lists namespaces, keys and values, page after page', async () => {
    for (const key of ['p/1', 'p/2', 'p/3', 'q'])
      await client.ok('remember', { key, value: key, namespace: `${namespace}-list` });
    const first = await client.ok('list', {
      namespace: `${namespace}-list`,
      prefix: 'p/',
      limit: 2,
      values: true,
    });
    expect(first.items.map(({ value }) => value)).toEqual(['p/1', 'p/2']);
    const second = await client.ok('list', {
      namespace: `${namespace}-list`,
      prefix: 'p/',
      limit: 2,
      values: true,
      cursor: first.next_cursor,
    });
    expect(second).toMatchObject({ items: [{ key: 'p/3' }], next_cursor: null });
    const { items } = await client.ok('list');
    expect(items.find((item: { namespace: string }) => item.namespace === `${namespace}-list`)).toMatchObject(
      { count: 4 },
    );
  });

  test('forgets, and forgetting again is not an error', async () => {
    await client.ok('remember', { key: 'gone', value: 1, namespace });
    expect(await client.ok('forget', { key: 'gone', namespace })).toEqual({ deleted: true });
    expect(await client.ok('forget', { key: 'gone', namespace })).toEqual({ deleted: false });
  });

  test('registers an agent and shows that it is alive', async () => {
    const name = `worker-${generation}`;
    const own = await TestClient.connect(running.url, running.alice, generation, {
      'stoa-agent': `new-${generation}`,
    });
    const { agents } = await own.ok('agents', { action: 'register', name, labels: { role: 'test' } });
    expect(agents).toMatchObject([{ name, presence: 'live', labels: { role: 'test' } }]);
    expect((await own.ok('agents', { action: 'register', name })).agents[0].agent_id).toBe(
      agents[0].agent_id,
    );
    expect(
      (await own.ok('agents', { action: 'heartbeat', name })).agents[0].lease_expires_at >=
        agents[0].lease_expires_at,
    ).toBe(true);
    expect(
      (await own.ok('agents', { label: 'role=test' })).agents.map((agent: { name: string }) => agent.name),
    ).toContain(name);
    await own.close();
  });

  test('commits in the words of the tools', async () => {
    const project = `words-${generation}`;
    const made = await client.ok('commit', {
      operations: [
        { op: 'task.create', project, command: 'go' },
        { op: 'room.post', room: project, text: 'made a task' },
      ],
    });
    expect(made).toMatchObject({ ok: true, results: [{ command: 'go' }, {}] });
    const { task, fence } = await client.ok('work', { action: 'claim', project });
    expect(
      await client.ok('commit', { operations: [{ op: 'task.complete', task: task.id, fence, output: 'x' }] }),
    ).toMatchObject({ ok: true, results: [{ status: 'completed', output: 'x' }] });
    expect(await client.ok('read', { room: project })).toMatchObject({
      messages: [{ text: 'made a task' }],
    });
  });

  test('commits several changes or none', async () => {
    const operations = [
      { op: 'data.set', namespace, key: 'result', value: 'done' },
      { op: 'data.increment', namespace, key: 'results' },
    ];
    const done = await client.ok('commit', {
      operations,
      checks: [{ check: 'data', namespace, key: 'result', version: 0 }],
    });
    expect(done).toMatchObject({ ok: true, results: [{ version: 1 }, { value: 1 }] });
    const again = await client.ok('commit', {
      operations,
      checks: [{ check: 'data', namespace, key: 'result', version: 0 }],
    });
    expect(again).toMatchObject({ ok: false, failed: { check: 0, code: 'version_conflict' } });
    expect((await client.ok('recall', { key: 'results', namespace })).items[0].value).toBe(1);
  });

  test('has the name of its program, and in a session an animal, if it names no agent', async () => {
    const unnamed = await TestClient.connect(running.url, running.alice, generation);
    await unnamed.ok('remember', { key: 'unnamed', value: 1, namespace });
    expect((await client.ok('recall', { key: 'unnamed', namespace })).items[0].createdByAgent).toMatch(
      generation === 'legacy' ? /^test-client-[a-z]+$/ : /^test-client$/,
    );
    await unnamed.close();
  });
});
