import { directoryFamilies } from '../../../../src/homes/directory/families.js';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { DirectoryDataStore } from '../../../../src/homes/directory/datastore/datastore.js';
import { dataFamilies } from '../../../../src/homes/directory/datastore/rows.js';
import { dataStoreConformance } from '../../../../src/datastore/conformance/index.js';
import type { Documents } from '../../../../src/datastore/port.js';
import { DataService } from '../../../../src/datastore/service.js';
import { DirectoryWriter } from '../../../../src/homes/directory/writer.js';
import { operatorCaller } from '../../../../src/core/caller.js';
import type { EngineName } from '../../../../src/core/settings/store-config.js';
import { openKernel } from '../../../../src/homes/directory/kernel/open-kernel.js';
import { type Kernel } from '../../../../src/homes/directory/kernel/kernel.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';

const directories: string[] = [];
const kernels: Kernel[] = [];
const services: DataService[] = [];

async function open(
  engine: EngineName,
  options: { shards?: number; clock?: () => number; limits?: Partial<Limits>; dataDir?: string } = {},
): Promise<Kernel> {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'stoa-data-')));
  directories.push(dataDir);
  const kernel = await openKernel({
    dataDir,
    engine,
    shards: options.shards,
    families: directoryFamilies,
    limits: limitsWith(options.limits),
    ...(options.clock && { clock: options.clock }),
  });
  kernels.push(kernel);
  return kernel;
}

afterAll(async () => {
  for (const data of services) await data.close();
  for (const kernel of kernels) await kernel.close();
  for (const directory of directories) await rm(directory, { recursive: true, force: true });
});

describe.each([
  ['lmdb', 1],
  ['rocksdb', 1],
  ['memory', 3],
] as const)('the data store on %s with %i shard(s)', (engine, shards) => {
  let shared: Promise<Documents> | undefined;
  dataStoreConformance(test, {
    // One process owns a directory, so a second service uses the same store.
    open: ({ nowMs }) => (shared ??= open(engine, { shards, clock: nowMs }).then(documentsIn)),
  });
});

const caller = operatorCaller('user', 'agent');

function documentsIn(kernel: Kernel): Documents {
  return { port: new DirectoryDataStore({ kernel }), writer: new DirectoryWriter(kernel) };
}

async function service(kernel: Kernel): Promise<DataService> {
  const data = new DataService({
    ...documentsIn(kernel),
    limits: kernel.limits,
    nowMs: () => kernel.nowMs(),
  });
  services.push(data);
  return data;
}

test('every write announces itself in the feed with its address and version, and nothing of its value', async () => {
  const kernel = await open('memory');
  const data = await service(kernel);
  await data.set(caller, 'files:repo', 'src/main.py', 'secret');
  await data.increment(caller, 'n', 'count');
  await data.batch(caller, 'n', { set: { a: 1 }, delete: ['count', 'missing'] });
  await data.clear(caller, 'n');
  const { commits } = kernel.feed.read();
  expect(commits.map(({ changes }) => changes)).toEqual([
    [
      {
        domain: 'data',
        kind: 'document.set',
        id: 'files%3Arepo/~c3JjL21haW4ucHk',
        user: 'user',
        agent: 'agent',
        version: 1,
        facts: { namespace: 'files:repo', key: 'src/main.py' },
      },
    ],
    [
      {
        domain: 'data',
        kind: 'document.set',
        id: 'n/count',
        user: 'user',
        agent: 'agent',
        version: 1,
        facts: { namespace: 'n', key: 'count' },
      },
    ],
    [
      {
        domain: 'data',
        kind: 'document.set',
        id: 'n/a',
        user: 'user',
        agent: 'agent',
        version: 1,
        facts: { namespace: 'n', key: 'a' },
      },
      {
        domain: 'data',
        kind: 'document.deleted',
        id: 'n/count',
        user: 'user',
        agent: 'agent',
        version: null,
        facts: { namespace: 'n', key: 'count' },
      },
    ],
    [
      {
        domain: 'data',
        kind: 'namespace.cleared',
        id: 'n',
        user: 'user',
        agent: 'agent',
        version: null,
        facts: { namespace: 'n', deleted: 1 },
      },
    ],
  ]);
  expect(JSON.stringify(commits)).not.toContain('secret');
});

test('counted reads take no sequence number', async () => {
  const kernel = await open('memory');
  const data = await service(kernel);
  await data.set(caller, 'n', 'k', 1);
  const position = kernel.feed.newest();
  await data.get(caller, 'n', 'k');
  await data.tracker.flush();
  expect(kernel.feed.newest()).toBe(position);
});

test('a batch with one refusal writes nothing', async () => {
  const kernel = await open('memory', { limits: { dataDocumentsPerUserMax: 3 } });
  const data = await service(kernel);
  await data.setMany(caller, 'n', { a: 1, b: 2 });
  await expect(data.setMany(caller, 'n', { a: 3, c: 4, d: 5 })).rejects.toMatchObject({
    code: 'quota_exceeded',
  });
  expect(await data.getMany(caller, 'n', ['a', 'b', 'c', 'd'])).toEqual({ a: 1, b: 2 });
  await data.set(caller, 'n', 'c', 4);
  await data.set(caller, 'n', 'c', 5);
});

test('a document read right after a commit shows each read once, also reads that the commit wrote', async () => {
  const kernel = await openKernel({
    dataDir: 'unused',
    engine: 'memory',
    families: directoryFamilies,
    limits: limitsWith(),
  });
  const data = new DataService({ ...documentsIn(kernel), limits: limitsWith() });
  const reader = operatorCaller('u', 'reader');
  await data.set(reader, 'n', 'k', 1);
  for (let reads = 0; reads < 50; reads += 1) {
    void data.tracker.flush();
    await kernel.root.transact((tx) => tx.put(dataFamilies.usage, Buffer.from('other'), Buffer.alloc(24)));
    expect((await data.getEntry(reader, 'n', 'k'))?.accessCount).toBe(reads);
  }
  await data.close();
  await kernel.close();
});

test('quotas of bytes and namespaces are kept exactly, and shrinking is always allowed', async () => {
  const kernel = await open('memory', { limits: { dataBytesPerUserMax: 10, dataNamespacesPerUserMax: 2 } });
  const data = await service(kernel);
  await data.set(caller, 'a', 'k', '12345678');
  await expect(data.set(caller, 'a', 'other', 1)).rejects.toMatchObject({
    code: 'quota_exceeded',
    details: { limit: 'dataBytesPerUserMax' },
  });
  await data.set(caller, 'a', 'k', '1');
  await data.set(caller, 'b', 'k', 1);
  await expect(data.set(caller, 'c', 'k', 1)).rejects.toMatchObject({
    code: 'quota_exceeded',
    details: { limit: 'dataNamespacesPerUserMax' },
  });
  await data.clear(caller, 'b');
  await data.set(caller, 'c', 'k', 1);
  await data.set(operatorCaller('somebody else'), 'x', 'k', '1234');
});

test('an expired document is swept by its timer, and one that was written again is not', async () => {
  let now = 1_700_000_000_000;
  const kernel = await open('memory', { clock: () => now });
  const data = await service(kernel);
  await data.set(caller, 'n', 'gone', 1, { ttl: 10 });
  await data.set(caller, 'n', 'kept', 1, { ttl: 10 });
  await data.set(caller, 'n', 'kept', 2);
  await data.set(caller, 'n', 'later', 1, { ttl: 10 });
  await data.set(caller, 'n', 'later', 1, { ttl: 100 });
  now += 10_000;
  await kernel.sweep();
  expect((await data.listNamespaces(caller)).items[0]?.count).toBe(2);
  expect(kernel.feed.read().commits.at(-1)?.changes).toEqual([
    {
      domain: 'data',
      kind: 'document.deleted',
      id: 'n/gone',
      user: 'user',
      version: null,
      facts: { namespace: 'n', key: 'gone', expired: true },
    },
  ]);
});

test('a large value is stored separately and deleted with its document', async () => {
  const kernel = await open('memory');
  const data = await service(kernel);
  const large = 'x'.repeat(100_000);
  await data.set(caller, 'n', 'k', large);
  expect(await data.get(caller, 'n', 'k')).toBe(large);
  expect((await data.listKeys(caller, 'n')).items[0]?.sizeBytes).toBe(100_002);
  const values = () => [...kernel.root.range(dataFamilies.values, {})].length;
  expect(values()).toBe(1);
  await data.set(caller, 'n', 'k', 'small');
  expect(values()).toBe(0);
  expect(await data.get(caller, 'n', 'k')).toBe('small');
  await data.set(caller, 'n', 'k', large);
  await data.delete(caller, 'n', 'k');
  for (const family of Object.values(dataFamilies)) {
    const left = [...kernel.root.range(family, {})].length;
    expect([family, left]).toEqual([
      family,
      family === dataFamilies.agents || family === dataFamilies.usage ? 1 : 0,
    ]);
  }
});

test('everything is there after the directory is opened again, counts included', async () => {
  const dataDir = await mkdtemp(join(tmpdir(), 'stoa-data-'));
  const first = await open('lmdb', { dataDir });
  const data = await service(first);
  await data.set(caller, 'n', 'k', { kept: true });
  for (let reads = 0; reads < 10; reads += 1) await data.get(caller, 'n', 'k');
  await data.close();
  await kernels.pop()?.close();
  const entry = await (
    await service(await open('lmdb', { dataDir }))
  ).getEntry(operatorCaller('user'), 'n', 'k');
  expect(entry).toMatchObject({
    value: { kept: true },
    accessCount: 10,
    lastAccessedByAgent: 'agent',
    version: 1,
  });
});

test('limits that would make keys too long for the engines are refused at start', async () => {
  const kernel = await open('memory', { limits: { dataKeyBytesMax: 2_000 } });
  expect(() => new DirectoryDataStore({ kernel })).toThrow(/dataKeyBytesMax/);
});

test('a read-only or namespace-limited caller is refused beyond its scopes', async () => {
  const data = await service(await open('memory'));
  await data.setMany(caller, 'open', { k: 1 });
  await data.setMany(caller, 'closed', { k: 1 });
  const narrow = { ...caller, scopes: { write: false, namespaces: ['open'] } };
  expect(await data.get(narrow, 'open', 'k')).toBe(1);
  await expect(data.set(narrow, 'open', 'k', 2)).rejects.toMatchObject({ code: 'forbidden' });
  await expect(data.increment(narrow, 'open', 'k')).rejects.toMatchObject({ code: 'forbidden' });
  await expect(data.clear(narrow, 'open')).rejects.toMatchObject({ code: 'forbidden' });
  await expect(data.get(narrow, 'closed', 'k')).rejects.toMatchObject({ code: 'forbidden' });
  expect((await data.listNamespaces(narrow)).items.map(({ namespace }) => namespace)).toEqual(['open']);
});

test('many agents of a namespace are listed and deleted in bounded steps', async () => {
  const limits = { clearStepMax: 2, namespaceAgentsListedMax: 3, namespacePageAgentsMax: 4 };
  const kernel = await open('memory', { limits });
  const writer = new DirectoryWriter(kernel);
  const data = new DataService({ port: new DirectoryDataStore({ kernel }), writer, limits: kernel.limits });
  for (const namespace of ['a', 'b', 'c'])
    for (let worker = 0; worker < 7; worker += 1)
      await data.set(operatorCaller('ada', `worker-${worker}`), namespace, 'k', worker);
  const ada = operatorCaller('ada');
  const page = await data.listNamespaces(ada);
  expect(page.items[0]?.agents).toEqual(['worker-0', 'worker-1', 'worker-2']);
  // The rest is on the next page.
  const rest = await data.listNamespaces(ada, { cursor: page.next_cursor ?? undefined });
  expect([...page.items, ...rest.items].map(({ namespace }) => namespace)).toEqual(['a', 'b', 'c']);
  expect(await data.clear(ada, 'a')).toBe(1);
  expect(await data.clear(ada, 'none')).toBe(0);
  await data.set(operatorCaller('ada', 'fresh'), 'a', 'k', 1);
  expect((await data.listNamespaces(ada)).items[0]?.agents).toEqual(['fresh']);
  await data.close();
});
