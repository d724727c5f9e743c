/** What goes wrong between the data store and DynamoDB, on an emulator behind a proxy that makes it go wrong. */
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { type DynamodbDataStore, openDynamodbDataStore } from '../../src/backends/dynamodb/datastore.js';
import { documentId } from '../../src/datastore/document-id.js';
import type { DataService } from '../../src/datastore/service.js';
import { operatorCaller } from '../../src/core/caller.js';
import { type Limits, limitsWith } from '../../src/limits.js';
import { start as startDynamodb } from '../servers/dynamodb.js';
import { type Answer, FaultyProxy } from '../servers/faulty-proxy.js';
import { noteServer, sharedServer } from '../servers/shared.js';
import { dynamodb } from './dynamodb-table.js';
import { dataOver } from './data-over.js';

let proxy: FaultyProxy;
const opened: DynamodbDataStore[] = [];
const table = `faults_${process.pid}`;
const caller = operatorCaller('user-1', 'agent');

beforeAll(async () => {
  proxy = new FaultyProxy((await sharedServer('dynamodb')).url);
  await proxy.start();
});
afterEach(() => proxy.heal());
afterAll(async () => {
  for (const store of opened) await store.close();
  await proxy.stop();
});

async function open(
  overrides: Partial<Limits> = {},
  name = table,
  onError?: (error: unknown) => void,
): Promise<DataService> {
  const limits = limitsWith({ backendDelayMsMax: 20, ...overrides });
  const port = await openDynamodbDataStore(new URL(dynamodb(proxy.url, name)), { limits, nowMs: Date.now });
  opened.push(port);
  return dataOver({ port, limits, ...(onError && { onError }) });
}

function refusal(type: string, message = 'by the test'): Answer {
  return { status: 400, body: { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message } };
}

function operationOf(target: string): string {
  return target.split('.').at(-1) ?? target;
}

test.each(['ProvisionedThroughputExceededException', 'ThrottlingException'])(
  '%s is waited out (emulator)',
  async (type) => {
    const data = await open();
    const refused = new Map<string, number>();
    // Of every operation the first three requests are refused.
    proxy.intercept = ({ target }) => {
      const times = (refused.get(target) ?? 0) + 1;
      refused.set(target, times);
      return times <= 3 ? refusal(type) : undefined;
    };
    await data.set(caller, type, 'k', 1);
    expect(await data.get(caller, type, 'k')).toBe(1);
    expect(await data.getMany(caller, type, ['k', 'missing'])).toEqual({ k: 1 });
    expect((await data.listKeys(caller, type)).items).toHaveLength(1);
    await data.tracker.flush();
    expect(await data.delete(caller, type, 'k')).toBe(true);
    expect([...refused.keys()].map(operationOf)).toEqual(
      expect.arrayContaining(['GetItem', 'UpdateItem', 'BatchGetItem', 'Query', 'DeleteItem']),
    );
  },
);

test('a list of namespaces whose caller goes away is not read to its end (emulator)', async () => {
  const data = await open();
  const user = operatorCaller('gone');
  for (const namespace of ['a', 'b', 'c', 'd']) await data.set(user, namespace, 'k', 1);
  await data.listNamespaces(user);
  const gone = new AbortController();
  const asked: string[] = [];
  proxy.intercept = ({ target }) => {
    asked.push(operationOf(target));
    if (asked.length === 2) gone.abort();
    return undefined;
  };
  await expect(data.listNamespaces(user, { signal: gone.signal })).rejects.toMatchObject({
    code: 'cancelled',
  });
  expect(asked.filter((operation) => operation === 'Query').length).toBeLessThan(5);
});

test('a close ends the requests that are under way, however long they might take (emulator)', async () => {
  const data = await open({ backendRequestSecondsMax: 3_600 });
  const asked = new Promise<void>((resolve) => {
    proxy.before = () => {
      resolve();
      return new Promise(() => undefined);
    };
  });
  const waiting = expect(data.get(caller, 'closing', 'k')).rejects.toMatchObject({ code: 'closed' });
  await asked;
  await data.close();
  await waiting;
});

test('throttling that does not end is a clear error, and nothing was written (emulator)', async () => {
  const data = await open({ backendAttemptsMax: 3 });
  let requests = 0;
  proxy.intercept = ({ target }) => {
    if (operationOf(target) !== 'UpdateItem') return undefined;
    requests += 1;
    return refusal('ProvisionedThroughputExceededException');
  };
  await expect(data.set(caller, 'throttled', 'k', 1)).rejects.toMatchObject({
    code: 'backend_unavailable',
    message: expect.stringMatching(/slow down/),
    fix: expect.stringMatching(/capacity/),
  });
  expect(requests).toBe(3);
  proxy.intercept = () => undefined;
  expect(await data.get(caller, 'throttled', 'k')).toBeUndefined();
});

test('what a batch leaves unprocessed is asked for again (emulator)', async () => {
  const data = await open();
  const values = Object.fromEntries(Array.from({ length: 230 }, (_, index) => [`k${index}`, index]));
  await data.setMany(caller, 'unprocessed', values);
  let leftOver = 0;
  proxy.intercept = ({ target, body }) => {
    if (leftOver >= 4 || !operationOf(target).startsWith('Batch')) return undefined;
    leftOver += 1;
    const { RequestItems } = JSON.parse(body) as { RequestItems: unknown };
    return {
      status: 200,
      body:
        operationOf(target) === 'BatchGetItem'
          ? { Responses: {}, UnprocessedKeys: RequestItems }
          : { UnprocessedItems: RequestItems },
    };
  };
  expect(await data.getMany(caller, 'unprocessed', Object.keys(values))).toEqual(values);
  expect(leftOver).toBe(4);
  leftOver = 0;
  const { documents } = await data.port.exportPage(null, 100);
  await data.transfer.write(operatorCaller(), documents);
  expect(leftOver).toBe(4);
  leftOver = -1_000;
  await expect(
    (await open({ backendAttemptsMax: 2 })).getMany(caller, 'unprocessed', ['k1']),
  ).rejects.toMatchObject({ code: 'backend_unavailable' });
});

test('a write whose answer was lost happens once (emulator)', async () => {
  const data = await open();
  await data.increment(caller, 'lost', 'count');
  let lost = 0;
  proxy.losesAnswer = ({ target, body }) => {
    const isLost = operationOf(target) === 'UpdateItem' && body.includes(':seen_writeId') && lost < 2;
    if (isLost) lost += 1;
    return isLost;
  };
  expect(await data.increment(caller, 'lost', 'count')).toMatchObject({ value: 2, version: 2 });
  expect(await data.set(caller, 'lost', 'count', 9, { ifVersion: 2 })).toMatchObject({ version: 3 });
  expect(lost).toBe(2);
  expect(await data.getEntry(caller, 'lost', 'count')).toMatchObject({ value: 9, version: 3 });
});

test('a write whose answer was lost happens once, also when others have written since (emulator)', async () => {
  const [data, other] = [await open(), await open()];
  await data.increment(caller, 'overtaken', 'count');
  let lost = 0;
  proxy.losesAnswer = ({ target, body }) =>
    operationOf(target) === 'UpdateItem' && body.includes(':seen_writeId') && (lost += 1) === 1;
  proxy.before = async () => {
    if (lost === 0) return;
    proxy.before = async () => undefined;
    for (let round = 0; round < 3; round += 1) await other.increment(caller, 'overtaken', 'count', 10);
  };
  expect(await data.increment(caller, 'overtaken', 'count')).toMatchObject({ value: 2, version: 2 });
  expect(await data.getEntry(caller, 'overtaken', 'count')).toMatchObject({ value: 32, version: 5 });
});

test('reads are counted once, also when only some of them could be written (emulator)', async () => {
  const errors: unknown[] = [];
  const data = await open(
    { backendAttemptsMax: 2, backendInFlightMax: 2 },
    table,
    (error) => void errors.push(error),
  );
  const keys = Array.from({ length: 8 }, (_, index) => `k${index}`);
  await data.setMany(caller, 'partly', Object.fromEntries(keys.map((key) => [key, 1])));
  await data.getMany(caller, 'partly', keys);
  const failing = documentId('user-1', 'partly', 'k4');
  proxy.intercept = ({ target, body }) =>
    operationOf(target) === 'UpdateItem' && body.includes(failing)
      ? refusal('ThrottlingException')
      : undefined;
  await data.tracker.flush();
  expect(errors).toMatchObject([{ code: 'backend_unavailable' }]);
  proxy.intercept = () => undefined;
  await data.tracker.flush();
  const counts = (await data.port.getMany({ user: 'user-1', namespace: 'partly' }, keys)).map(
    (record) => record?.accessCount,
  );
  expect(counts).toEqual(keys.map(() => 1));
});

test('an agent that could not be noted beside its write is noted with the next one (emulator)', async () => {
  const data = await open({ backendAttemptsMax: 1 });
  proxy.intercept = ({ target, body }) =>
    operationOf(target) === 'UpdateItem' && body.includes('_namespaces')
      ? refusal('ThrottlingException')
      : undefined;
  await data.set(caller, 'noted', 'k', 1);
  expect(await data.get(operatorCaller('user-1'), 'noted', 'k')).toBe(1);
  proxy.intercept = () => undefined;
  const { items } = await data.listNamespaces(caller);
  expect(items.find(({ namespace }) => namespace === 'noted')?.agents).toEqual(['agent']);
});

test('lists never scan the table (emulator)', async () => {
  const data = await open();
  const operations = new Set<string>();
  proxy.intercept = ({ target }) => {
    operations.add(operationOf(target));
    return undefined;
  };
  await data.setMany(caller, 'scan', { a: 1, b: 2 });
  await data.listKeys(caller, 'scan', { prefix: 'a' });
  await data.listDocuments(caller, 'scan');
  await data.listNamespaces(caller);
  await data.clear(caller, 'scan');
  expect([...operations]).not.toContain('Scan');
  await data.port.exportPage(null, 10);
  expect([...operations]).toContain('Scan');
});

test('two processes that start at once on an empty server make one table and wait until it can be used (emulator)', async () => {
  const server = await startDynamodb({ createTableMs: 700 });
  await noteServer(server.describe);
  const limits = limitsWith();
  const stores = await Promise.all(
    [1, 2, 3].map(() =>
      openDynamodbDataStore(new URL(dynamodb(server.url, `start_${process.pid}`)), {
        limits,
        nowMs: Date.now,
      }),
    ),
  );
  try {
    await Promise.all(
      stores.map((port, index) => dataOver({ port, limits }).set(caller, 'n', `k${index}`, index)),
    );
    const [first] = stores;
    expect(
      await first?.listKeys({ user: 'user-1', namespace: 'n' }, { prefix: '', after: null, limit: 10 }),
    ).toHaveLength(3);
  } finally {
    for (const store of stores) await store.close();
    await server.stop();
  }
});

test('a table that never becomes usable is an error that says so (emulator)', async () => {
  proxy.intercept = ({ target }) =>
    operationOf(target) === 'DescribeTable'
      ? { status: 200, body: { Table: { TableStatus: 'CREATING' } } }
      : undefined;
  await expect(open({ backendReadySecondsMax: 0.001 })).rejects.toMatchObject({
    code: 'backend_unavailable',
    message: expect.stringMatching(/not usable yet \(CREATING\)/),
  });
});

test('an index that another program did not make is added and waited for (emulator)', async () => {
  const asked: string[] = [];
  const seedIndex = {
    IndexName: 'their-name',
    IndexStatus: 'ACTIVE',
    KeySchema: [
      { AttributeName: 'userId', KeyType: 'HASH' },
      { AttributeName: 'namespace', KeyType: 'RANGE' },
    ],
  };
  let looks = 0;
  // The emulator cannot add an index to a table, so the proxy plays that part of the service.
  proxy.intercept = ({ target, body }) => {
    const operation = operationOf(target);
    if (operation === 'UpdateTable') asked.push(body);
    if (operation === 'UpdateTable')
      return asked.length === 1 ? refusal('LimitExceededException') : { status: 200, body: {} };
    if (operation !== 'DescribeTable' || body.includes('_namespaces')) return undefined;
    if (asked.length > 1) looks += 1;
    const ours = {
      IndexName: 'stoa-scope-key-index',
      IndexStatus: looks < 3 ? 'CREATING' : 'ACTIVE',
      KeySchema: [
        { AttributeName: 'scopeKey', KeyType: 'HASH' },
        { AttributeName: 'key', KeyType: 'RANGE' },
      ],
    };
    const indexes = looks === 0 ? [seedIndex] : [seedIndex, ours];
    return {
      status: 200,
      body: {
        Table: {
          TableStatus: looks > 0 && looks < 3 ? 'UPDATING' : 'ACTIVE',
          KeySchema: [{ AttributeName: '_id', KeyType: 'HASH' }],
          GlobalSecondaryIndexes: indexes,
          ProvisionedThroughput: { ReadCapacityUnits: 5, WriteCapacityUnits: 6 },
        },
      },
    };
  };
  const data = await open();
  expect(looks).toBeGreaterThanOrEqual(3);
  expect(asked).toHaveLength(2);
  expect(JSON.parse(asked[1] ?? '')).toMatchObject({
    GlobalSecondaryIndexUpdates: [
      {
        Create: {
          IndexName: 'stoa-scope-key-index',
          ProvisionedThroughput: { ReadCapacityUnits: 5, WriteCapacityUnits: 6 },
        },
      },
    ],
  });
  const queried: string[] = [];
  proxy.intercept = ({ target, body }) => {
    if (operationOf(target) === 'Query') queried.push(body);
    return operationOf(target) === 'Query' ? { status: 200, body: { Items: [] } } : undefined;
  };
  await data.listNamespaces(caller);
  expect(queried[0]).toContain('their-name');
});

test('DynamoDB is asked to delete what has expired by itself (emulator)', async () => {
  const asked: unknown[] = [];
  proxy.intercept = ({ target, body }) => {
    if (operationOf(target) !== 'UpdateTimeToLive') return undefined;
    asked.push(JSON.parse(body));
    return { status: 200, body: {} };
  };
  await open();
  expect(asked).toEqual([
    { TableName: table, TimeToLiveSpecification: { Enabled: true, AttributeName: 'expiresAtSeconds' } },
  ]);
});

test('a table with other keys is refused (emulator)', async () => {
  await open();
  await expect(open({}, `${table}_namespaces`)).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/other keys/),
  });
});

test('wrong credentials are an error of the configuration (emulator)', async () => {
  proxy.intercept = () =>
    refusal('UnrecognizedClientException', 'The security token included in the request is invalid.');
  await expect(open()).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/security token/),
  });
});

test('a deletion, a clear and counted reads happen once and say so when their answers are lost (emulator)', async () => {
  const data = await open();
  const keys = ['a', 'b', 'c', 'd'];
  await data.setMany(caller, 'lost once', Object.fromEntries(keys.map((key) => [key, 1])));
  const lost = new Set<string>();
  // The first answer to each request is lost.
  proxy.losesAnswer = ({ target, body }) => {
    if (!['DeleteItem', 'UpdateItem'].includes(operationOf(target)) || lost.has(body)) return false;
    lost.add(body);
    return true;
  };
  await data.get(caller, 'lost once', 'b');
  await data.get(caller, 'lost once', 'b');
  await data.tracker.flush();
  expect(await data.delete(caller, 'lost once', 'a')).toBe(true);
  expect(await data.delete(caller, 'lost once', 'd', { ifVersion: 1 })).toBe(true);
  proxy.losesAnswer = () => false;
  expect((await data.port.get({ user: 'user-1', namespace: 'lost once' }, 'b'))?.accessCount).toBe(2);
  expect(await data.delete(caller, 'lost once', 'a')).toBe(false);
  proxy.losesAnswer = ({ target, body }) =>
    operationOf(target) === 'DeleteItem' && lost.size < lost.add(body).size;
  expect(await data.clear(caller, 'lost once')).toBe(2);
  expect(lost.size).toBeGreaterThan(4);
});

test('what is still being tried again ends with the store, and asks nobody any more (emulator)', async () => {
  const data = await open({ backendAttemptsMax: 1_000 });
  let asked = 0;
  proxy.intercept = () => {
    asked += 1;
    return refusal('ThrottlingException');
  };
  const reading = data.get(caller, 'n', 'k').catch((error: unknown) => error);
  await vi.waitFor(() => expect(asked).toBeGreaterThan(2));
  await data.close();
  expect(await reading).toMatchObject({ code: 'closed' });
  const askedBefore = asked;
  await expect(data.get(caller, 'n', 'k')).rejects.toMatchObject({ code: 'closed' });
  expect(asked).toBe(askedBefore);
});
