import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Stoa } from '../../src/client/index.js';
import { operatorCaller } from '../../src/index.js';
import { StoaStore, type StoaStoreOptions } from '../../src/langgraph/index.js';
import { Running } from '../server/running.js';

let running: Running;
let requests: string[] = [];
let made = 0;

beforeAll(async () => {
  running = await Running.start();
});
afterAll(() => running.stop());

/** A separate store whose requests are counted. */
function newStore(options: Partial<StoaStoreOptions> = {}): StoaStore {
  made += 1;
  requests = [];
  const client = new Stoa({
    url: running.url,
    token: running.alice,
    fetch: (input, init) => {
      requests.push(`${init?.method ?? 'GET'} ${new URL(String(input)).pathname}`);
      return fetch(input, init);
    },
  });
  return new StoaStore({ client, namespace: `store-${made}`, ...options });
}

test('an item comes back with its namespace, key and times; a second put replaces it', async () => {
  const store = newStore();
  await store.put(['users', 'ada'], 'likes', { food: 'figs' });
  const first = await store.get(['users', 'ada'], 'likes');
  expect(first).toMatchObject({ namespace: ['users', 'ada'], key: 'likes', value: { food: 'figs' } });
  expect(first?.createdAt).toBeInstanceOf(Date);
  await store.put(['users', 'ada'], 'likes', { food: 'dates' });
  const second = await store.get(['users', 'ada'], 'likes');
  expect(second?.value).toEqual({ food: 'dates' });
  expect(second?.createdAt).toEqual(first?.createdAt);
  expect(Number(second?.updatedAt)).toBeGreaterThanOrEqual(Number(first?.updatedAt));
  await store.delete(['users', 'ada'], 'likes');
  expect(await store.get(['users', 'ada'], 'likes')).toBeNull();
  await store.delete(['users', 'ada'], 'likes');
});

test('namespaces and keys of any characters stay apart', async () => {
  const store = newStore();
  const paths: [string[], string][] = [
    [['a', 'b'], 'k'],
    [['a/b'], 'k'],
    [['a'], 'b/:k'],
    [['a'], 'b:k'],
    [['a:b'], 'k'],
    [['a%002fb'], 'k'],
    [['a', 'b', 'k'], ''],
    [['\u0000\u0085', '\ud800', '😀 ü'], '\n\udfff%'],
    [['..'], '.'],
  ];
  for (const [index, [namespace, key]] of paths.entries())
    await store.batch([{ namespace, key, value: { index } }]);
  for (const [index, [namespace, key]] of paths.entries()) {
    expect(await store.get(namespace, key)).toMatchObject({ namespace, key, value: { index } });
  }
  const found = await store.search([], { limit: 100 });
  expect(new Set(found.map(({ namespace, key }) => JSON.stringify([namespace, key])))).toEqual(
    new Set(paths.map((path) => JSON.stringify(path))),
  );
  await expect(store.put([], 'k', {})).rejects.toThrow(/Namespace/);
  await expect(store.put(['has.period'], 'k', {})).rejects.toThrow(/period/);
});

describe('search', () => {
  const people = [
    { name: 'ada', age: 36, born: '1815-12-10', tags: ['math'] },
    { name: 'alan', age: 41, born: '1912-06-23', tags: ['math', 'chess'] },
    { name: 'grace', age: 85, born: '1906-12-09', rank: 'admiral' },
  ];
  let store: StoaStore;
  const names = async (filter: Record<string, unknown>) =>
    (await store.search(['people'], { filter })).map(({ value }) => String(value['name']));

  beforeAll(async () => {
    store = newStore();
    await store.batch(people.map((value) => ({ namespace: ['people', value.name], key: 'facts', value })));
    await store.put(['peoples'], 'facts', { name: 'not a person', age: 40 });
  });

  test.each([
    [{}, ['ada', 'alan', 'grace']],
    [{ name: 'ada' }, ['ada']],
    [{ age: { $eq: 41 } }, ['alan']],
    [{ age: { $ne: 41 } }, ['ada', 'grace']],
    [{ age: { $gt: 41 } }, ['grace']],
    [{ age: { $gte: 41 } }, ['alan', 'grace']],
    [{ age: { $lt: 41 } }, ['ada']],
    [{ age: { $lte: 41 } }, ['ada', 'alan']],
    [{ age: { $gt: 36, $lt: 85 } }, ['alan']],
    [{ born: { $gt: '1900-01-01' } }, ['alan', 'grace']],
    [{ tags: ['math'] }, ['ada']],
    [{ name: { $in: ['ada', 'grace'] } }, ['ada', 'grace']],
    [{ rank: { $ne: 'admiral' } }, ['ada', 'alan']],
    [{ rank: { $gt: 0 } }, []],
    [{ age: { $gt: 30 }, rank: 'admiral' }, ['grace']],
    [{ toString: 1 }, []],
  ])('by %j finds %j', async (filter, expected) => {
    expect(await names(filter)).toEqual(expected);
  });

  test('takes limit and offset, ten items by default', async () => {
    const many = newStore();
    await many.batch(
      Array.from({ length: 25 }, (_, index) => ({
        namespace: ['n'],
        key: String(index).padStart(2, '0'),
        value: { even: index % 2 === 0 },
      })),
    );
    const keys = async (options: Parameters<StoaStore['search']>[1]) =>
      (await many.search(['n'], options)).map(({ key }) => key);
    expect(await keys({})).toHaveLength(10);
    expect(await keys({ limit: 3, offset: 2 })).toEqual(['02', '03', '04']);
    expect(await keys({ limit: 3, offset: 1, filter: { even: true } })).toEqual(['02', '04', '06']);
    expect(await keys({ limit: 100, offset: 24 })).toEqual(['24']);
    expect(await keys({ limit: 0 })).toEqual([]);
  });

  test('refuses what it cannot do', async () => {
    await expect(names({ age: { $near: 3 } })).rejects.toMatchObject({
      code: 'invalid_request',
      fix: expect.stringContaining('$gte'),
    });
  });

  test('with a query finds the best first, with its score', async () => {
    const found = await store.search(['people'], { query: 'who likes chess?', limit: 3 });
    expect(found.length).toBeGreaterThan(0);
    expect(JSON.stringify(found[0])).toContain('chess');
    expect(found[0]?.score).toBeGreaterThan(0);
  });
});

test('namespaces are listed by prefix, suffix, wildcard and depth', async () => {
  const store = newStore();
  const namespaces = [['a', 'x', 'v1'], ['a', 'x', 'v2'], ['a', 'y', 'v1'], ['ab'], ['b', 'x', 'v1']];
  await store.batch(
    namespaces.flatMap((namespace) => ['k', 'l'].map((key) => ({ namespace, key, value: {} }))),
  );
  expect(await store.listNamespaces()).toEqual(namespaces);
  expect(await store.listNamespaces({ prefix: ['a'] })).toEqual(namespaces.slice(0, 3));
  expect(await store.listNamespaces({ suffix: ['v1'] })).toEqual([
    ['a', 'x', 'v1'],
    ['a', 'y', 'v1'],
    ['b', 'x', 'v1'],
  ]);
  expect(await store.listNamespaces({ prefix: ['*', 'x'], suffix: ['v1'] })).toEqual([
    ['a', 'x', 'v1'],
    ['b', 'x', 'v1'],
  ]);
  expect(await store.listNamespaces({ prefix: ['a'], maxDepth: 2 })).toEqual([
    ['a', 'x'],
    ['a', 'y'],
  ]);
  expect(await store.listNamespaces({ limit: 2, offset: 3 })).toEqual(namespaces.slice(3));
  await store.batch(['k', 'l'].map((key) => ({ namespace: ['ab'], key, value: null })));
  expect(await store.listNamespaces({ prefix: ['ab'] })).toEqual([]);
});

test('the writes of a batch are one request, all or none; its reads see the state before', async () => {
  const store = newStore();
  await store.put(['n'], 'old', { v: 1 });
  requests = [];
  const results = await store.batch([
    { namespace: ['n'], key: 'old' },
    { namespace: ['n'], key: 'old', value: null },
    { namespace: ['n'], key: 'new', value: { v: 1 } },
    { namespacePrefix: ['n'] },
    { namespace: ['m'], key: 'new', value: { v: 2 } },
    { namespace: ['n'], key: 'new', value: { v: 3 } },
    { limit: 10, offset: 0 },
  ]);
  expect(requests.filter((request) => request.startsWith('POST'))).toHaveLength(1);
  expect(results).toMatchObject([
    { value: { v: 1 } },
    undefined,
    undefined,
    [{ key: 'old' }],
    undefined,
    undefined,
    [['n']],
  ]);
  expect((await store.search([])).map(({ namespace, value }) => [namespace[0], value['v']])).toEqual([
    ['m', 2],
    ['n', 3],
  ]);
  const tooLarge = { text: 'x'.repeat(1024 * 1024) };
  await expect(
    store.batch([
      { namespace: ['n'], key: 'fits', value: {} },
      { namespace: ['n'], key: 'large', value: tooLarge },
    ]),
  ).rejects.toMatchObject({ code: 'too_large' });
  expect(await store.get(['n'], 'fits')).toBeNull();
});

test('items expire after the life of the store, or after their own', async () => {
  const store = newStore({ ttlSeconds: 0.5 });
  await store.put(['n'], 'short', {});
  await store.put(['n'], 'hour', {}, undefined, { ttlSeconds: 3_600 });
  await store.put(['n'], 'forever', {}, false, { ttlSeconds: null });
  requests = [];
  const mixed = [
    { namespace: ['n'], key: 'mixed', value: {}, ttlSeconds: 3_600 },
    { namespace: ['m'], key: 'mixed', value: {} },
    { namespace: ['n'], key: 'missing', value: null },
  ];
  await store.batch(mixed);
  expect(requests).toEqual(['POST /v1/commit']);
  await expect(store.put(['has.period'], 'k', {}, undefined, { ttlSeconds: 1 })).rejects.toThrow(/period/);
  const { items } = await running.stoa.data.listDocuments(operatorCaller('alice'), `store-${made}`);
  expect(items.map(({ key, expiresAt }) => [key, expiresAt === null])).toEqual(
    expect.arrayContaining([
      ['n/:forever', true],
      ['n/:hour', false],
      ['n/:mixed', false],
    ]),
  );
  await expect
    .poll(async () => (await store.search([])).map(({ key }) => key))
    .toEqual(['forever', 'hour', 'mixed']);
  expect(await store.get(['n'], 'short')).toBeNull();
  expect(await store.listNamespaces()).toEqual([['n']]);
});

test.each([[[]], [['']], [['a', '']], [['a.b']], [['langgraph', 'x']]])(
  "put refuses the namespace %j, as LangGraph's own stores do",
  async (namespace) => {
    const store = newStore();
    await expect(store.put(namespace, 'k', {})).rejects.toThrow(/[Nn]amespace/);
    await expect(store.put(namespace, 'k', {}, undefined, { ttlSeconds: 1 })).rejects.toThrow(/[Nn]amespace/);
    expect(await store.search([])).toEqual([]);
  },
);

test('a read renews the time to live of an item only with refreshOnRead', async () => {
  const store = newStore({ ttlSeconds: 3_600, refreshOnRead: true });
  const namespace = `store-${made}`;
  const plain = new StoaStore({ client: new Stoa({ url: running.url, token: running.alice }), namespace });
  const caller = operatorCaller('alice');
  const documentOf = (key: string) => running.stoa.data.getEntry(caller, namespace, `n/:${key}`);
  const expiryOf = async (key: string) => (await documentOf(key))?.expiresAt;
  await store.put(['n'], 'forever', {}, undefined, { ttlSeconds: null });
  for (const key of ['got', 'searched', 'plain', 'fresh']) await store.put(['n'], key, { key });
  // Of three the hour is nearly over.
  const soon = new Date(Date.now() + 60_000).toISOString();
  const aged = await Promise.all(
    ['got', 'searched', 'plain'].map(async (key) => ({
      ...(await documentOf(key)),
      updatedAt: new Date(Date.now() - 3_540_000).toISOString(),
      expiresAt: soon,
    })),
  );
  await running.stoa.data.transfer.import(caller, aged);
  const fresh = await expiryOf('fresh');
  expect(await store.get(['n'], 'got')).toMatchObject({ value: { key: 'got' } });
  expect(await store.search(['n'], { filter: { key: 'searched' } })).toHaveLength(1);
  await plain.get(['n'], 'plain');
  await store.get(['n'], 'fresh');
  await store.get(['n'], 'forever');
  expect(Date.parse(String(await expiryOf('got')))).toBeGreaterThan(Date.now() + 3_000_000);
  expect(Date.parse(String(await expiryOf('searched')))).toBeGreaterThan(Date.now() + 3_000_000);
  expect([await expiryOf('plain'), await expiryOf('fresh'), await expiryOf('forever')]).toEqual([
    soon,
    fresh,
    null,
  ]);
});
