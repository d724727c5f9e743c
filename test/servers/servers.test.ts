import { afterAll, expect, test } from 'vitest';
import { callCouchdb } from '../stores/couchdb/database.js';
import { start as startFirestore } from './firestore.js';
import { noteServer, emptyPostgres, sharedServer, uniqueName } from './shared.js';

const ended: (() => Promise<void>)[] = [];
afterAll(async () => {
  for (const stop of ended) await stop();
});

test('PostgreSQL is a real server of version 16, and every suite has a database of its own', async () => {
  const { default: postgres } = await import('postgres');
  const [one, two] = [await emptyPostgres(), await emptyPostgres()];
  expect(one.url).not.toBe(two.url);
  const sql = postgres(one.url, { max: 1 });
  const [row] = await sql<{ server_version: string }[]>`SHOW server_version`;
  expect(row?.server_version).toMatch(/^16\./);
  expect(one.describe).toContain(String(row?.server_version));
  await sql.end();
});

test('Redis answers alone and as a cluster of three masters', async () => {
  const { Redis, Cluster } = await import('ioredis');
  const redis = new Redis((await sharedServer('redis')).url);
  await redis.set('key', 'value');
  expect(await redis.get('key')).toBe('value');
  expect(await redis.config('GET', 'appendfsync')).toContain('always');
  redis.disconnect();

  const nodes = (await sharedServer('redis-cluster')).url
    .split(',')
    .map((url) => ({ host: '127.0.0.1', port: Number(new URL(url).port) }));
  expect(nodes).toHaveLength(3);
  const cluster = new Cluster(nodes);
  for (const key of ['a', 'b', 'c', 'd']) await cluster.set(key, key);
  expect(await cluster.get('d')).toBe('d');
  cluster.disconnect();
});

test('CouchDB is up, guards revisions and pages a _find by bookmark with 25 as its default limit', async () => {
  const { url } = await sharedServer('couchdb');
  const papers = `/${uniqueName('papers')}`;
  const call = (
    method: string,
    path: string,
    body?: unknown,
  ): Promise<{ status: number; body: Record<string, unknown> }> => callCouchdb(url, method, path, body);
  expect(await call('GET', '/_up')).toMatchObject({ status: 200, body: { status: 'ok' } });
  expect((await fetch(new URL(url).origin + papers)).status).toBe(401);
  expect((await call('PUT', papers)).status).toBe(201);
  expect((await call('PUT', `${papers}/one`, { n: 1 })).status).toBe(201);
  expect((await call('PUT', `${papers}/one`, { n: 2 })).status).toBe(409);
  const docs = Array.from({ length: 30 }, (_, n) => ({
    _id: `doc-${String(n).padStart(2, '0')}`,
    n,
    kind: 'doc',
  }));
  await call('POST', `${papers}/_bulk_docs`, { docs });
  await call('POST', `${papers}/_index`, { index: { fields: ['kind'] }, name: 'by-kind' });
  const first = await call('POST', `${papers}/_find`, { selector: { kind: 'doc' } });
  expect(first.body['docs']).toHaveLength(25);
  const second = await call('POST', `${papers}/_find`, {
    selector: { kind: 'doc' },
    bookmark: first.body['bookmark'],
  });
  expect(second.body['docs']).toHaveLength(5);
  const last = await call('POST', `${papers}/_find`, {
    selector: { kind: 'doc' },
    bookmark: second.body['bookmark'],
  });
  expect(last.body['docs']).toEqual([]);
});

test('DynamoDB refuses a conditional write whose condition does not hold', async () => {
  const { DynamoDBClient, CreateTableCommand, PutItemCommand } = await import('@aws-sdk/client-dynamodb');
  const { url } = await sharedServer('dynamodb');
  const table = uniqueName('papers');
  const client = new DynamoDBClient({
    endpoint: url,
    region: 'local',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  });
  await client.send(
    new CreateTableCommand({
      TableName: table,
      BillingMode: 'PAY_PER_REQUEST',
      AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'S' }],
      KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    }),
  );
  const put = new PutItemCommand({
    TableName: table,
    Item: { id: { S: 'one' } },
    ConditionExpression: 'attribute_not_exists(id)',
  });
  await client.send(put);
  await expect(client.send(put)).rejects.toThrow(/conditional request failed/i);
  client.destroy();
});

test('Firestore creates a document once', async () => {
  const server = await startFirestore();
  ended.push(server.stop);
  await noteServer(server.describe);
  const document = server.firestore.collection('papers').doc('one');
  await document.create({ n: 1 });
  await expect(document.create({ n: 2 })).rejects.toThrow(/ALREADY_EXISTS|already exists/i);
  expect((await document.get()).data()).toEqual({ n: 1 });
});
