/** Documents in CouchDB, DynamoDB and Firestore are found by their words, which the home keeps. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FieldValue } from '@google-cloud/firestore';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { operatorCaller } from '../../src/core/caller.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { storeDocuments } from '../../src/datastore/document-store/documents.js';
import { collectionName } from '../../src/datastore/model.js';
import type { Documents, DocumentStore } from '../../src/datastore/port.js';
import { DataService } from '../../src/datastore/service.js';
import { FindService } from '../../src/find/service.js';
import { type Stoa, type StoaOptions, openStoa } from '../../src/index.js';
import { openDataBackend } from '../../src/open/datastore.js';
import { emulatorMessageBytesMax } from '../../src/stores/firestore/client.js';
import { FirestoreDataStore } from '../../src/stores/firestore/datastore.js';
import { start as startFirestore } from '../servers/firestore.js';
import { sharedHome, sharedServer, uniqueName } from '../servers/shared.js';
import { couchdbUrl } from '../stores/couchdb/database.js';
import { FaultyFirestore } from '../stores/firestore/faulty-firestore.js';
import { dropTable, dynamodb } from '../stores/dynamodb/table.js';
import { eventually } from '../until.js';

interface Opened {
  readonly stoa: Stoa;
  readonly data: DataService;
  readonly find: FindService;
  /** The same store, as another program uses it. */
  readonly foreign: DataService;
  close(): Promise<void>;
}

const limits = limitsWith({ backendDelayMsMax: 50 });
let skewMs = 0;
const nowMs = (): number => Date.now() + skewMs;

function serviceOf(documents: Documents): DataService {
  return new DataService({ port: documents.port, writer: documents.writer, limits, nowMs });
}

/** The store is named by its URL, as an operator does it. */
async function openAt(home: StoaOptions, datastore: string): Promise<Opened> {
  const stoa = await openStoa({ ...home, datastore });
  const foreign = serviceOf(await openDataBackend(datastore, { limits, nowMs }));
  return {
    stoa,
    data: stoa.data,
    find: stoa.find,
    foreign,
    close: async () => {
      await foreign.close();
      await foreign.port.close();
      await stoa.close();
    },
  };
}

/** The emulator in this process has no URL. */
async function openWith(home: StoaOptions, store: DocumentStore): Promise<Opened> {
  const stoa = await openStoa(home);
  const { current, ...documents } = storeDocuments(store, limits, { notes: stoa.home.storeNotes });
  if (current !== null) stoa.home.find.useStore(current);
  const data = serviceOf(documents);
  const find = new FindService({
    port: stoa.home.find,
    embedding: null,
    namespaceSettings: stoa.home.namespaceSettings,
    data: documents.port,
    workspaces: stoa.home.workspaces,
    messaging: stoa.home.messaging,
    limits,
    nowMs,
    findProject: async (_caller, project) => project,
    findRoom: async (_caller, room) => room,
    findAgent: async (_caller, name) => ({ name, identities: [] }),
  });
  const foreign = serviceOf(storeDocuments(store, limits));
  return {
    stoa,
    data,
    find,
    foreign,
    close: async () => {
      await data.close();
      await foreign.close();
      await stoa.close();
    },
  };
}

const stores = {
  couchdb: async (home: StoaOptions) => {
    const { url } = await sharedServer('couchdb');
    return openAt(home, couchdbUrl(url, uniqueName('find')).href);
  },
  dynamodb: async (home: StoaOptions) => {
    const { url } = await sharedServer('dynamodb');
    const table = uniqueName('find');
    const opened = await openAt(home, dynamodb(url, table));
    return {
      ...opened,
      close: async () => {
        await opened.close();
        await dropTable(url, table);
      },
    };
  },
  firestore: async (home: StoaOptions) => {
    const server = await startFirestore();
    const place = {
      firestore: new FaultyFirestore(server.firestore).client(),
      values: FieldValue,
      collection: collectionName,
      messageBytesMax: emulatorMessageBytesMax,
    };
    const opened = await openWith(home, new FirestoreDataStore(place, { limits, nowMs }));
    return {
      ...opened,
      close: async () => {
        await opened.close();
        await server.stop();
      },
    };
  },
} as const;

const homes = ['directory', 'postgres'] as const;
const cases = homes.flatMap((home) =>
  (Object.keys(stores) as (keyof typeof stores)[]).map((store) => ({ home, store })),
);

describe.each(cases)('documents in $store beside the home $home', ({ home, store }) => {
  const ada = operatorCaller('ada', 'scribe');
  let opened: Opened;
  let directory: string | undefined;

  beforeAll(async () => {
    // Each sweep asks PostgreSQL some ten questions.
    const sweepIntervalMs = home === 'directory' ? 50 : 200;
    const common = { clock: nowMs, sweepIntervalMs, limits: { backendDelayMsMax: 50 } };
    if (home === 'directory') directory = await mkdtemp(join(tmpdir(), 'stoa-find-stores-'));
    const options = directory === undefined ? (await sharedHome()).options : { data: directory };
    opened = await stores[store]({ ...common, ...options });
  });
  afterAll(async () => {
    await opened.close();
    if (directory !== undefined) await rm(directory, { recursive: true, force: true });
  });

  const keysOf = async (q: string, namespace?: string): Promise<(string | undefined)[]> =>
    (await opened.find.find(ada, { q, namespace })).items.map(({ key }) => key).toSorted();
  const wordKeys = (namespace: string): Promise<string[]> =>
    opened.stoa.home.storeNotes.wordKeys({ user: 'ada', namespace }, null, null);
  const expectSound = async (): Promise<void> =>
    expect((await opened.stoa.operations.examine(false)).findings).toEqual([]);

  test('an acknowledged write is found by the next search, and a deleted document is not', async () => {
    const { data } = opened;
    await data.set(
      ada,
      'notes',
      'choice',
      { text: 'We chose PostgreSQL' },
      { metadata: { tags: ['ledger'] } },
    );
    await data.set(ada, 'notes', 'lunch', { text: 'Figs with honey' });
    expect(await keysOf('which database: PostgreSQL')).toEqual(['choice']);
    // What a write leaves out stays, in the index too.
    await data.set(ada, 'notes', 'choice', { text: 'We chose CockroachDB' });
    expect(await keysOf('ledger')).toEqual(['choice']);
    expect(await keysOf('PostgreSQL')).toEqual([]);
    await data.batch(ada, 'notes', { set: { a: 'walrus one', b: 'walrus two' }, delete: ['lunch'] });
    expect(await keysOf('walrus')).toEqual(['a', 'b']);
    expect(await keysOf('honey')).toEqual([]);
    await data.increment(ada, 'counts', 'walrus-count', 1);
    expect(await keysOf('walrus')).toEqual(['a', 'b', 'walrus-count']);
    await data.delete(ada, 'notes', 'a');
    expect(await keysOf('walrus')).toEqual(['b', 'walrus-count']);
    expect(await wordKeys('notes')).toEqual(['b', 'choice']);
    await expectSound();
  });

  test('writes and deletes at the same time leave the words of what the store has', async () => {
    const { data } = opened;
    const keys = Array.from({ length: 6 }, (_, at) => `key-${at}`);
    for (let round = 0; round < 2; round += 1)
      await Promise.all(
        keys.flatMap((key) => [
          data.set(ada, 'races', key, `gannet ${round}`),
          data.delete(ada, 'races', key),
          data.set(ada, 'races', key, `gannet again ${round}`),
          data.delete(ada, 'races', key),
        ]),
      );
    const there = Object.keys(await data.getMany(ada, 'races', keys)).toSorted();
    expect(await keysOf('gannet')).toEqual(there);
    expect(await wordKeys('races')).toEqual(there);
  });

  test('a document that is not to be indexed has no words, and so a namespace', async () => {
    const { data, stoa } = opened;
    await data.set(ada, 'quiet', 'one', 'heron one');
    await data.set(ada, 'quiet', 'two', 'heron two', { index: false });
    expect(await keysOf('heron')).toEqual(['one']);
    await data.set(ada, 'quiet', 'one', 'heron one', { index: false });
    expect(await wordKeys('quiet')).toEqual([]);
    await data.set(ada, 'quiet', 'one', 'heron one', { index: true });
    expect(await keysOf('heron')).toEqual(['one']);
    await stoa.namespaceSettings.change(ada, 'quiet', { index: false });
    expect(await keysOf('heron')).toEqual([]);
    await eventually(async () => expect(await wordKeys('quiet')).toEqual([]));
    await data.set(ada, 'quiet', 'three', 'heron three');
    expect(await wordKeys('quiet')).toEqual([]);
    await stoa.namespaceSettings.change(ada, 'quiet', { index: true });
    await eventually(async () => expect(await wordKeys('quiet')).toEqual(['one', 'three']));
    expect(await keysOf('heron')).toEqual(['one', 'three']);
  });

  test('a cleared namespace and expired documents leave the index', async () => {
    const { data } = opened;
    for (const key of ['a', 'b', 'c']) await data.set(ada, 'scratch', key, `otter ${key}`);
    await data.set(ada, 'passing', 'soon', 'otter that expires', { ttl: 60 });
    expect(await keysOf('otter')).toEqual(['a', 'b', 'c', 'soon']);
    await data.clear(ada, 'scratch');
    expect(await wordKeys('scratch')).toEqual([]);
    expect(await keysOf('otter')).toEqual(['soon']);
    skewMs += 61_000;
    expect(await keysOf('otter')).toEqual([]);
    await eventually(async () => expect(await wordKeys('passing')).toEqual([]));
    await expectSound();
  });

  test('what other programs wrote is found after a reindex, and what they deleted is never shown', async () => {
    const { data, find, foreign } = opened;
    await data.set(ada, 'shared', 'ours', 'puffin ours');
    await data.set(ada, 'shared', 'lost', 'puffin lost');
    await foreign.set(ada, 'shared', 'theirs', 'puffin theirs');
    await foreign.set(operatorCaller('eve'), 'shared', 'hers', 'puffin of eve');
    await foreign.delete(ada, 'shared', 'lost');
    expect(await keysOf('puffin')).toEqual(['ours']);
    await find.reindex(ada, 'shared', () => undefined);
    expect(await keysOf('puffin')).toEqual(['ours', 'theirs']);
    expect(await wordKeys('shared')).toEqual(['ours', 'theirs']);
    await foreign.set(ada, 'elsewhere', 'more', 'puffin more');
    const seen: number[] = [];
    const { filed } = await find.reindex(operatorCaller(), undefined, ({ done }) => seen.push(done));
    expect(filed).toBe(seen.at(-1));
    expect(await keysOf('puffin')).toEqual(['more', 'ours', 'theirs']);
    expect((await find.find(operatorCaller('eve'), { q: 'puffin' })).items.map(({ key }) => key)).toEqual([
      'hers',
    ]);
    await expectSound();
  });
});
