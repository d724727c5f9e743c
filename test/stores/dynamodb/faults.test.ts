/** Faults between the data store and DynamoDB Local, caused by a proxy. */
import { expect, test } from 'vitest';
import { documentId } from '../../../src/datastore/documents/document-id.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { putNative } from './table.js';
import { eventually } from '../../until.js';
import { caller, operationOf, refusal, useFaultyDynamodb } from './faulty-dynamodb.js';

const dynamo = useFaultyDynamodb();
const { open } = dynamo;

test.each(['ProvisionedThroughputExceededException', 'ThrottlingException'])(
  '%s is waited out',
  async (type) => {
    const data = await open();
    const refused = new Map<string, number>();
    // Of every operation the first three requests are refused.
    dynamo.proxy.intercept = ({ target }) => {
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
  dynamo.proxy.intercept = ({ target }) => {
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
    dynamo.proxy.before = () => {
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
  dynamo.proxy.intercept = ({ target }) => {
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
  dynamo.proxy.intercept = () => undefined;
  expect(await data.get(caller, 'throttled', 'k')).toBeUndefined();
});

test('unprocessed items of a batch are requested again', async () => {
  const data = await open();
  const values = Object.fromEntries(Array.from({ length: 230 }, (_, index) => [`k${index}`, index]));
  await data.setMany(caller, 'unprocessed', values);
  let leftOver = 0;
  dynamo.proxy.intercept = ({ target, body }) => {
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
  await dynamo.opened.at(-1)?.restore(documents);
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
  dynamo.proxy.losesAnswer = ({ target, body }) => {
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
  dynamo.proxy.losesAnswer = ({ target, body }) =>
    operationOf(target) === 'UpdateItem' && body.includes(':seen_writeId') && (lost += 1) === 1;
  dynamo.proxy.before = async () => {
    if (lost === 0) return;
    dynamo.proxy.before = async () => undefined;
    for (let round = 0; round < 3; round += 1) await other.increment(caller, 'overtaken', 'count', 10);
  };
  expect(await data.increment(caller, 'overtaken', 'count')).toMatchObject({ value: 2, version: 2 });
  expect(await data.getEntry(caller, 'overtaken', 'count')).toMatchObject({ value: 32, version: 5 });
});

test('reads are counted once, also when only some of them could be written', async () => {
  const errors: unknown[] = [];
  const data = await open({ backendAttemptsMax: 2, backendInFlightMax: 2 }, dynamo.table, (error) =>
    errors.push(error),
  );
  const keys = Array.from({ length: 8 }, (_, index) => `k${index}`);
  await data.setMany(caller, 'partly', Object.fromEntries(keys.map((key) => [key, 1])));
  await data.getMany(caller, 'partly', keys);
  const failing = documentId('user-1', 'partly', 'k4');
  dynamo.proxy.intercept = ({ target, body }) =>
    operationOf(target) === 'UpdateItem' && body.includes(failing)
      ? refusal('ThrottlingException')
      : undefined;
  await data.tracker.flush();
  expect(errors).toMatchObject([{ code: 'backend_unavailable' }]);
  dynamo.proxy.intercept = () => undefined;
  await data.tracker.flush();
  const counts = (await data.port.getMany({ user: 'user-1', namespace: 'partly' }, keys)).map(
    (record) => record?.accessCount,
  );
  expect(counts).toEqual(keys.map(() => 1));
});

test('an agent that could not be noted beside its write is noted with the next one', async () => {
  const data = await open({ backendAttemptsMax: 1 });
  dynamo.proxy.intercept = ({ target, body }) =>
    operationOf(target) === 'UpdateItem' && body.includes('_namespaces')
      ? refusal('ThrottlingException')
      : undefined;
  await data.set(caller, 'noted', 'k', 1);
  expect(await data.get(operatorCaller('user-1'), 'noted', 'k')).toBe(1);
  dynamo.proxy.intercept = () => undefined;
  const { items } = await data.listNamespaces(caller);
  expect(items.find(({ namespace }) => namespace === 'noted')?.agents).toEqual(['agent']);
});

test('a list by another process does not repeat a recent check for documents of other programs', async () => {
  const [data, other] = [await open(), await open()];
  await data.set(caller, 'looked', 'ours', 1);
  await data.listKeys(caller, 'looked');
  await putNative(dynamo.proxy.url, dynamo.table, {
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
  dynamo.proxy.before = ({ body }) => (body.includes('userId-namespace-index') ? held : Promise.resolve());
  const list = async (): Promise<string[]> =>
    (await other.listKeys(caller, 'looked')).items.map(({ key }) => key);
  expect(await list()).toEqual(['ours']);
  goOn?.();
  await expect.poll(list).toEqual(['ours', 'theirs']);
});

test('lists never scan the table', async () => {
  const data = await open();
  const operations = new Set<string>();
  dynamo.proxy.intercept = ({ target }) => {
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

test('a deletion, a clear and counted reads happen once and say so when their answers are lost', async () => {
  const data = await open();
  const keys = ['a', 'b', 'c', 'd'];
  await data.setMany(caller, 'lost once', Object.fromEntries(keys.map((key) => [key, 1])));
  const lost = new Set<string>();
  // The first answer to each request is lost.
  dynamo.proxy.losesAnswer = ({ target, body }) => {
    if (!['DeleteItem', 'UpdateItem'].includes(operationOf(target)) || lost.has(body)) return false;
    lost.add(body);
    return true;
  };
  await data.get(caller, 'lost once', 'b');
  await data.get(caller, 'lost once', 'b');
  await data.tracker.flush();
  expect(await data.delete(caller, 'lost once', 'a')).toBe(true);
  expect(await data.delete(caller, 'lost once', 'd', { ifVersion: 1 })).toBe(true);
  dynamo.proxy.losesAnswer = () => false;
  expect((await data.port.get({ user: 'user-1', namespace: 'lost once' }, 'b'))?.accessCount).toBe(2);
  expect(await data.delete(caller, 'lost once', 'a')).toBe(false);
  dynamo.proxy.losesAnswer = ({ target, body }) =>
    operationOf(target) === 'DeleteItem' && lost.size < lost.add(body).size;
  expect(await data.clear(caller, 'lost once')).toBe(2);
  expect(lost.size).toBeGreaterThan(4);
});

test('retries end when the store closes', async () => {
  const data = await open({ backendAttemptsMax: 1_000 });
  let asked = 0;
  dynamo.proxy.intercept = () => {
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
