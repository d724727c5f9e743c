/** Faults between the data store and DynamoDB Local, caused by a proxy. */
import { dataOver } from '../../datastore/data-over.js';
import {
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  DynamoDBClient,
} from '@aws-sdk/client-dynamodb';
import { afterAll, afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { openDynamodbDataStore } from '../../../src/stores/dynamodb/open.js';
import { type DynamodbDataStore } from '../../../src/stores/dynamodb/datastore.js';
import { documentId } from '../../../src/datastore/documents/document-id.js';
import type { DataService } from '../../../src/datastore/service.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { type Limits, limitsWith } from '../../../src/core/settings/limits.js';
import { type Answer, FaultyProxy } from '../../servers/faulty-proxy.js';
import { sharedServer, uniqueName } from '../../servers/shared.js';
import { dropTable, dynamodb, putNative } from './table.js';
import { eventually } from '../../until.js';

let proxy: FaultyProxy;
const opened: DynamodbDataStore[] = [];
const table = uniqueName('faults');
const caller = operatorCaller('user-1', 'agent');

beforeAll(async () => {
  proxy = new FaultyProxy((await sharedServer('dynamodb')).url);
  await proxy.start();
});
afterEach(() => proxy.heal());
afterAll(async () => {
  for (const store of opened) await store.close();
  for (const name of [table, `${table}_namespaces`]) await dropTable(proxy.url, name);
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
  '%s is waited out',
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

test('a list of namespaces stops when its caller disconnects', async () => {
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

test('a close ends running requests, even if they would never finish', async () => {
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

test('throttling that does not end is a clear error, and nothing was written', async () => {
  const data = await open({ backendAttemptsMax: 3 });
  let requests = 0;
  proxy.intercept = ({ target }) => {
    if (operationOf(target) !== 'UpdateItem') return undefined;
    requests += 1;
    return refusal('ProvisionedThroughputExceededException');
  };
  await expect(data.set(caller, 'throttled', 'k', 1)).rejects.toMatchObject({
    code: 'backend_unavailable',
    message: expect.stringMatching(/throttled the request/),
    fix: expect.stringMatching(/capacity/),
  });
  expect(requests).toBe(3);
  proxy.intercept = () => undefined;
  expect(await data.get(caller, 'throttled', 'k')).toBeUndefined();
});

test('unprocessed items of a batch are requested again', async () => {
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
  await opened.at(-1)?.restore(documents);
  expect(leftOver).toBe(4);
  leftOver = -1_000;
  await expect(
    (await open({ backendAttemptsMax: 2 })).getMany(caller, 'unprocessed', ['k1']),
  ).rejects.toMatchObject({ code: 'backend_unavailable' });
});

test('a write whose answer was lost happens once', async () => {
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

test('a write whose answer was lost happens once, also when others have written since', async () => {
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

test('reads are counted once, also when only some of them could be written', async () => {
  const errors: unknown[] = [];
  const data = await open({ backendAttemptsMax: 2, backendInFlightMax: 2 }, table, (error) =>
    errors.push(error),
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

test('an agent that could not be noted beside its write is noted with the next one', async () => {
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

test('a list by another process does not repeat a recent check for documents of other programs', async () => {
  const [data, other] = [await open(), await open()];
  await data.set(caller, 'looked', 'ours', 1);
  await data.listKeys(caller, 'looked');
  await putNative(proxy.url, table, {
    _id: documentId('user-1', 'looked', 'theirs'),
    userId: 'user-1',
    namespace: 'looked',
    key: 'theirs',
    value: 1,
    createdAt: '2026-02-05T10:00:00Z',
    updatedAt: '2026-02-05T10:00:00Z',
  });
  let goOn: (() => void) | undefined;
  const held = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  proxy.before = ({ body }) => (body.includes('userId-namespace-index') ? held : Promise.resolve());
  const list = async (): Promise<string[]> =>
    (await other.listKeys(caller, 'looked')).items.map(({ key }) => key);
  expect(await list()).toEqual(['ours']);
  goOn?.();
  await expect.poll(list).toEqual(['ours', 'theirs']);
});

test('lists never scan the table', async () => {
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

test('processes that start at once create one table and wait until it is active', async () => {
  const name = uniqueName('start');
  onTestFinished(() => dropTable(proxy.url, name));
  const looks = new Map<string, number>();
  // DynamoDB Local has a table at once; the service takes a while.
  proxy.intercept = ({ target, body }) => {
    const { TableName: table } = JSON.parse(body) as { TableName: string };
    if (operationOf(target) === 'CreateTable') looks.set(table, 0);
    const before = looks.get(table);
    if (operationOf(target) !== 'DescribeTable' || before === undefined) return undefined;
    looks.set(table, before + 1);
    return before < 5 ? { status: 200, body: { Table: { TableStatus: 'CREATING' } } } : undefined;
  };
  const services = await Promise.all([1, 2, 3].map(() => open({}, name)));
  await Promise.all(services.map((data, index) => data.set(caller, 'n', `k${index}`, index)));
  expect((await services[0]?.listKeys(caller, 'n'))?.items).toHaveLength(3);
  expect([...looks.values()].every((times) => times > 5)).toBe(true);
});

test('a table that never becomes active is reported as an error', async () => {
  proxy.intercept = ({ target }) =>
    operationOf(target) === 'DescribeTable'
      ? { status: 200, body: { Table: { TableStatus: 'CREATING' } } }
      : undefined;
  await expect(open({ backendReadySecondsMax: 0.001 })).rejects.toMatchObject({
    code: 'backend_unavailable',
    message: expect.stringMatching(/not ready yet \(CREATING\)/),
  });
});

test('missing indexes are created one after the other, and the start waits for them', async () => {
  const name = uniqueName('theirs');
  onTestFinished(() => dropTable(proxy.url, name));
  const driver = new DynamoDBClient({
    endpoint: proxy.url,
    region: 'local',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  await driver.send(
    new CreateTableCommand({
      TableName: name,
      AttributeDefinitions: [{ AttributeName: '_id', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: '_id', KeyType: 'HASH' }],
      ProvisionedThroughput: { ReadCapacityUnits: 5, WriteCapacityUnits: 6 },
    }),
  );
  await putNative(proxy.url, name, {
    _id: documentId('user-1', 'n', 'k'),
    userId: 'user-1',
    namespace: 'n',
    key: 'k',
    value: 1,
    createdAt: '2026-02-05T10:00:00Z',
    updatedAt: '2026-02-05T10:00:00Z',
  });
  const data = await open({}, name);
  const { Table } = await driver.send(new DescribeTableCommand({ TableName: name }));
  expect(
    Table?.GlobalSecondaryIndexes?.map(({ IndexName, IndexStatus, ProvisionedThroughput }) => [
      IndexName,
      IndexStatus,
      ProvisionedThroughput?.WriteCapacityUnits,
    ]).toSorted(),
  ).toEqual([
    ['stoa-scope-key-index', 'ACTIVE', 6],
    ['userId-namespace-index', 'ACTIVE', 6],
  ]);
  const { TimeToLiveDescription } = await driver.send(new DescribeTimeToLiveCommand({ TableName: name }));
  expect(TimeToLiveDescription).toMatchObject({
    TimeToLiveStatus: 'ENABLED',
    AttributeName: 'expiresAtSeconds',
  });
  expect((await data.listKeys(caller, 'n')).items).toMatchObject([{ key: 'k', sizeBytes: 1 }]);
  driver.destroy();
});

test("an index with the seed's keys under another name is used", async () => {
  const name = uniqueName('named');
  onTestFinished(() => dropTable(proxy.url, name));
  const driver = new DynamoDBClient({
    endpoint: proxy.url,
    region: 'local',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  await driver.send(
    new CreateTableCommand({
      TableName: name,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: ['_id', 'userId', 'namespace'].map((name) => ({
        AttributeName: name,
        AttributeType: 'S' as const,
      })),
      KeySchema: [{ AttributeName: '_id', KeyType: 'HASH' }],
      GlobalSecondaryIndexes: [
        {
          IndexName: 'their-name',
          KeySchema: [
            { AttributeName: 'userId', KeyType: 'HASH' },
            { AttributeName: 'namespace', KeyType: 'RANGE' },
          ],
          Projection: { ProjectionType: 'ALL' },
        },
      ],
    }),
  );
  const queried: string[] = [];
  proxy.intercept = ({ target, body }) => {
    if (operationOf(target) === 'Query') queried.push(body);
    return undefined;
  };
  const data = await open({}, name);
  await data.set(caller, 'n', 'k', 1);
  expect((await data.listNamespaces(caller)).items).toMatchObject([{ namespace: 'n', count: 1 }]);
  expect(queried[0]).toContain('their-name');
  const { Table } = await driver.send(new DescribeTableCommand({ TableName: name }));
  expect(Table?.GlobalSecondaryIndexes?.map(({ IndexName }) => IndexName).toSorted()).toEqual([
    'stoa-scope-key-index',
    'their-name',
  ]);
  driver.destroy();
});

test('a table with other keys is refused', async () => {
  await open();
  await expect(open({}, `${table}_namespaces`)).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/wrong key schema/),
  });
});

test('wrong credentials are an error of the configuration', async () => {
  proxy.intercept = () =>
    refusal('UnrecognizedClientException', 'The security token included in the request is invalid.');
  await expect(open()).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/security token/),
  });
});

test('a deletion, a clear and counted reads happen once and say so when their answers are lost', async () => {
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

test('retries end when the store closes', async () => {
  const data = await open({ backendAttemptsMax: 1_000 });
  let asked = 0;
  proxy.intercept = () => {
    asked += 1;
    return refusal('ThrottlingException');
  };
  const reading = data.get(caller, 'n', 'k').catch((error: unknown) => error);
  await eventually(() => expect(asked).toBeGreaterThan(2));
  await data.close();
  expect(await reading).toMatchObject({ code: 'closed' });
  const askedBefore = asked;
  await expect(data.get(caller, 'n', 'k')).rejects.toMatchObject({ code: 'closed' });
  expect(asked).toBe(askedBefore);
});
