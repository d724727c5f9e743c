/** Stored items in DynamoDB: those of Stoa as other programs read them, and the reverse. */
import { dataOver } from '../../datastore/data-over.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openDynamodbDataStore } from '../../../src/stores/dynamodb/open.js';
import { type DynamodbDataStore } from '../../../src/stores/dynamodb/datastore.js';
import { documentId } from '../../../src/datastore/documents/document-id.js';
import type { DataService } from '../../../src/datastore/service.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { type Limits, limitsWith } from '../../../src/core/settings/limits.js';
import { sharedServer, uniqueName } from '../../servers/shared.js';
import { dropTable, dynamodb, getNative, putNative } from './table.js';

const table = uniqueName('documents');
const caller = operatorCaller('user_123', 'agent');
const opened: DynamodbDataStore[] = [];
const services: DataService[] = [];
let endpoint: string;
let data: DataService;

async function open(overrides: Partial<Limits> = {}): Promise<DataService> {
  const limits = limitsWith(overrides);
  const port = await openDynamodbDataStore(new URL(dynamodb(endpoint, table)), { limits, nowMs: Date.now });
  opened.push(port);
  const service = dataOver({ port, limits });
  services.push(service);
  return service;
}

beforeAll(async () => {
  endpoint = (await sharedServer('dynamodb')).url;
  data = await open({ foreignDocumentsSeconds: 0 });
});
afterAll(async () => {
  for (const service of services) await service.close();
  await dropTable(endpoint, table);
});

const put = (document: Readonly<Record<string, unknown>>): Promise<void> =>
  putNative(endpoint, table, document);
const stored = (namespace: string, key: string): Promise<Record<string, unknown> | undefined> =>
  getNative(endpoint, table, documentId('user_123', namespace, key));

describe('documents in DynamoDB', () => {
  test('another program finds the fields of the seed, the value as JSON text, metadata as a map', async () => {
    await data.set(
      caller,
      'files:my-repo',
      'src/main.py',
      { lines: [1, [2]] },
      { metadata: { language: 'python', tags: ['a'], size: 4.5 } },
    );
    const item = await stored('files:my-repo', 'src/main.py');
    const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3})?Z$/);
    expect(item).toMatchObject({
      _id: 'user_123:files:my-repo:c3JjL21haW4ucHk=',
      userId: 'user_123',
      namespace: 'files:my-repo',
      key: 'src/main.py',
      value: '{"lines":[1,[2]]}',
      metadata: { language: 'python', tags: ['a'], size: 4.5 },
      createdByAgent: 'agent',
      lastAccessedByAgent: 'agent',
      accessCount: 0,
      createdAt: time,
      updatedAt: time,
      lastAccessedAt: time,
      version: 1,
    });
    expect(item).not.toHaveProperty('expiresAt');
    expect(item?.['metadataJson']).toBe('{"language":"python","tags":["a"],"size":4.5}');
  });

  test('metadata that DynamoDB would change or refuse is kept as text and comes back', async () => {
    const metadata = {
      huge: 1e300,
      '': 'no name',
      deep: JSON.parse('['.repeat(60) + ']'.repeat(60)) as never,
    };
    await data.set(caller, 'odd', 'k', 1, { metadata });
    expect((await data.getEntry(caller, 'odd', 'k'))?.metadata).toEqual(metadata);
    expect(await stored('odd', 'k')).not.toHaveProperty('metadata');
    await data.set(caller, 'odd', 'k', 2, { metadata: { huge: 1, '': 'still' } });
    expect((await data.getEntry(caller, 'odd', 'k'))?.metadata).toEqual({
      ...metadata,
      huge: 1,
      '': 'still',
    });
  });

  test("the seed's own examples are read, listed, counted and written", async () => {
    const documents = [
      {
        key: 'greeting',
        namespace: 'examples',
        value: 'Hello, World!',
        createdByAgent: 'hello-agent',
        accessCount: 1,
      },
      {
        key: 'src/main.py',
        namespace: 'examples',
        value: { content: 'def main():\n', lines: 2, functions: ['main'] },
        metadata: { file_size: 42 },
        createdByAgent: 'repo-indexer',
        lastAccessedByAgent: 'code-searcher',
        accessCount: 15,
        lastAccessedAt: '2026-02-05T14:30:00Z',
      },
      {
        key: 'repos',
        namespace: 'examples',
        value: [{ name: 'repo-a', stars: 100 }],
        metadata: { ttl_seconds: 3600 },
        createdByAgent: 'github-fetcher',
        accessCount: 3,
      },
    ];
    const sizeOf = (wanted: string): number =>
      JSON.stringify(documents.find(({ key }) => key === wanted)?.value).length;
    for (const document of documents) {
      await put({
        _id: documentId('user_123', 'examples', document.key),
        userId: 'user_123',
        ...document,
        createdAt: '2026-02-05T10:00:00',
        updatedAt: '2026-02-05T10:00:00',
      });
    }
    for (const { key, value, accessCount } of documents) {
      expect(await data.getEntry(operatorCaller('user_123'), 'examples', key)).toMatchObject({
        value,
        accessCount,
        createdAt: '2026-02-05T10:00:00Z',
        version: 1,
      });
    }
    expect(
      (await data.listKeys(caller, 'examples')).items.map(({ key, sizeBytes }) => [key, sizeBytes]),
    ).toEqual(['greeting', 'repos', 'src/main.py'].map((key) => [key, sizeOf(key)]));
    const [summary] = (await data.listNamespaces(caller)).items.filter(
      ({ namespace }) => namespace === 'examples',
    );
    expect(summary).toEqual({
      namespace: 'examples',
      count: 3,
      sizeBytes: documents.reduce((sum, { key }) => sum + sizeOf(key), 0),
      agents: ['code-searcher', 'github-fetcher', 'hello-agent', 'repo-indexer'],
      updatedAt: '2026-02-05T10:00:00Z',
    });
    await data.get(operatorCaller('user_123', 'reader'), 'examples', 'greeting');
    await data.tracker.flush();
    expect(await stored('examples', 'greeting')).toMatchObject({
      value: 'Hello, World!',
      accessCount: 2,
      lastAccessedByAgent: 'reader',
    });
    expect(await data.append(caller, 'examples', 'repos', ['new'])).toMatchObject({
      value: [{ name: 'repo-a', stars: 100 }, 'new'],
      version: 2,
    });
    expect(await data.clear(caller, 'examples')).toBe(3);
  });

  test('values of every type that DynamoDB has are read, and numbers are numbers', async () => {
    const value = {
      number: 95,
      decimal: 3.14,
      big: 2n ** 64n,
      list: [1, 'x', null, true],
      set: new Set(['b']),
      numbers: new Set([7]),
      binary: new Uint8Array([1, 2]),
      empty: {},
    };
    await put({
      _id: documentId('user_123', 'types', 'k'),
      userId: 'user_123',
      namespace: 'types',
      key: 'k',
      value,
      createdAt: '2026-02-05T10:00:00Z',
      updatedAt: '2026-02-05T10:00:00Z',
    });
    expect(await data.get(caller, 'types', 'k')).toEqual({
      number: 95,
      decimal: 3.14,
      big: 2 ** 64,
      list: [1, 'x', null, true],
      set: ['b'],
      numbers: [7],
      binary: 'AQI=',
      empty: {},
    });
    expect((await data.port.get({ user: 'user_123', namespace: 'types' }, 'k'))?.valueJson).toContain(
      '18446744073709551616',
    );
  });

  test('a document that another program rewrote without our attributes is read with its new content', async () => {
    await data.set(caller, 'shared', 'k', { ours: true }, { metadata: { a: 1 } });
    const item = await stored('shared', 'k');
    // As the seed's own program does it: read, change, put everything back.
    await put({
      ...item,
      value: '{"looks":"like JSON"}',
      metadata: { b: 2 },
      updatedAt: '2030-01-01T00:00:00.000001',
    });
    expect(await data.getEntry(caller, 'shared', 'k')).toMatchObject({
      value: '{"looks":"like JSON"}',
      metadata: { b: 2 },
      updatedAt: '2030-01-01T00:00:00.000001Z',
    });
    expect((await data.listKeys(caller, 'shared')).items).toMatchObject([
      { key: 'k', sizeBytes: JSON.stringify('{"looks":"like JSON"}').length },
    ]);
    await data.set(caller, 'shared', 'k', [1]);
    expect(await data.getEntry(caller, 'shared', 'k')).toMatchObject({
      value: [1],
      metadata: { b: 2 },
      version: 2,
    });
  });

  test('a document that another program adds later is listed too', async () => {
    await data.set(caller, 'later', 'b', 1);
    expect((await data.listKeys(caller, 'later')).items.map(({ key }) => key)).toEqual(['b']);
    for (const key of ['a', 'c'])
      await put({
        _id: documentId('user_123', 'later', key),
        userId: 'user_123',
        namespace: 'later',
        key,
        value: key,
        createdAt: '2026-02-05T10:00:00Z',
        updatedAt: '2026-02-05T10:00:00Z',
      });
    expect((await data.listKeys(caller, 'later')).items.map(({ key }) => key)).toEqual(['a', 'b', 'c']);
    expect(
      (await data.listDocuments(caller, 'later', { prefix: 'c' })).items.map(({ valueJson }) => valueJson),
    ).toEqual(['"c"']);
  });

  test('with the default limits a document that another program adds is listed within seconds', async () => {
    await data.set(caller, 'kept', 'ours', 1);
    const standard = await open();
    const list = async (): Promise<string[]> =>
      (await standard.listKeys(caller, 'kept')).items.map(({ key }) => key);
    expect(await list()).toEqual(['ours']);
    await put({
      _id: documentId('user_123', 'kept', 'theirs'),
      userId: 'user_123',
      namespace: 'kept',
      key: 'theirs',
      value: 1,
      createdAt: '2026-02-05T10:00:00Z',
      updatedAt: '2026-02-05T10:00:00Z',
    });
    expect(await standard.get(caller, 'kept', 'theirs')).toBe(1);
    await expect.poll(list, { interval: 500 }).toEqual(['ours', 'theirs']);
  });

  test('a document without what the seed requires is named in the error', async () => {
    await put({
      _id: documentId('user_123', 'broken', 'k'),
      userId: 'user_123',
      namespace: 'broken',
      key: 'k',
      value: 1,
    });
    await expect(data.get(caller, 'broken', 'k')).rejects.toMatchObject({
      code: 'invalid_data',
      message: 'Item "user_123:broken:aw==": The document\'s field "createdAt" is missing.',
    });
  });

  test('an item over 400 KB is refused with its size, also when the metadata is what makes it so', async () => {
    const { valueBytesMax } = data.port.capabilities;
    const value = 'x'.repeat((valueBytesMax ?? 0) - 2);
    await data.set(caller, 'large', 'k', value);
    await expect(
      data.set(caller, 'large', 'k', value, { metadata: { note: 'y'.repeat(20_000) } }),
    ).rejects.toMatchObject({ code: 'too_large', details: { itemBytesMax: 409_600 } });
    await expect(data.append(caller, 'large', 'list', ['x'.repeat(410_000)])).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringMatching(/has 41\d{4} bytes, which exceeds the 409600 that DynamoDB allows\./),
    });
    const { large } = await data.setMany(caller, 'large', { small: 1, large: 'x'.repeat(410_000) });
    expect(large).toMatchObject({ error: { code: 'too_large' } });
    expect(await data.get(caller, 'large', 'small')).toBe(1);
  });

  test('an id over 2,048 bytes is refused where the limits allow keys that long', async () => {
    const wide = await open({ dataKeyBytesMax: 4_096 });
    await expect(wide.set(caller, 'n', 'k'.repeat(1_600), 1)).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringMatching(/exceeds the 2048 that DynamoDB allows/),
    });
  });

  test('a restored document never overwrites that of another owner', async () => {
    await data.set(operatorCaller('a:b'), 'c', 'k', 'theirs');
    const [record] = (await data.listDocuments(operatorCaller('a:b'), 'c')).items;
    if (record === undefined) throw new Error('There is no document.');
    await expect(opened[0]?.restore([{ ...record, userId: 'a', namespace: 'b:c' }])).rejects.toMatchObject({
      code: 'id_collision',
    });
    await expect(
      opened[0]?.restore([
        { ...record, userId: 'p:q', namespace: 'r' },
        { ...record, userId: 'p', namespace: 'q:r' },
      ]),
    ).rejects.toMatchObject({ code: 'id_collision' });
    expect(await data.get(operatorCaller('a:b'), 'c', 'k')).toBe('theirs');
  });
});
