/** The tables and indexes that the data store makes, finds or refuses when it starts. */
import {
  CreateTableCommand,
  DescribeTableCommand,
  DescribeTimeToLiveCommand,
  DynamoDBClient,
} from '@aws-sdk/client-dynamodb';
import { expect, onTestFinished, test } from 'vitest';
import { documentId } from '../../../src/datastore/documents/document-id.js';
import { uniqueName } from '../../servers/shared.js';
import { dropTable, putNative } from './table.js';
import { caller, operationOf, refusal, useFaultyDynamodb } from './faulty-dynamodb.js';

const dynamo = useFaultyDynamodb();
const { open } = dynamo;

test('processes that start at once create one table and wait until it is active', async () => {
  const name = uniqueName('start');
  onTestFinished(() => dropTable(dynamo.proxy.url, name));
  const looks = new Map<string, number>();
  // DynamoDB Local has a table at once; the service takes a while.
  dynamo.proxy.intercept = ({ target, body }) => {
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
  dynamo.proxy.intercept = ({ target }) =>
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
  onTestFinished(() => dropTable(dynamo.proxy.url, name));
  const driver = new DynamoDBClient({
    endpoint: dynamo.proxy.url,
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
  await putNative(dynamo.proxy.url, name, {
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
  onTestFinished(() => dropTable(dynamo.proxy.url, name));
  const driver = new DynamoDBClient({
    endpoint: dynamo.proxy.url,
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
  dynamo.proxy.intercept = ({ target, body }) => {
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
  await expect(open({}, `${dynamo.table}_namespaces`)).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/wrong key schema/),
  });
});

test('wrong credentials are an error of the configuration', async () => {
  dynamo.proxy.intercept = () =>
    refusal('UnrecognizedClientException', 'The security token included in the request is invalid.');
  await expect(open()).rejects.toMatchObject({
    code: 'invalid_config',
    message: expect.stringMatching(/security token/),
  });
});
