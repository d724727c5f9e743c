/**
 * Stored documents in Firestore: those of Stoa as other programs read them, and the reverse. On an emulator.
 */
import { dataOver } from '../../datastore/data-over.js';
import { FieldValue, GeoPoint, Timestamp } from '@google-cloud/firestore';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { toName } from '../../../src/stores/firestore/documents.js';
import { emulatorMessageBytesMax } from '../../../src/stores/firestore/client.js';
import { openFirestoreDataStore } from '../../../src/stores/firestore/open.js';
import { FirestoreDataStore } from '../../../src/stores/firestore/datastore.js';
import { documentId } from '../../../src/datastore/documents/document-id.js';
import { collectionName } from '../../../src/datastore/model.js';
import type { DataService } from '../../../src/datastore/service.js';
import type { StoaError } from '../../../src/core/errors.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { freePort } from '../../servers/child.js';
import { type FirestoreServer, start } from '../../servers/firestore.js';
import { noteServer } from '../../servers/shared.js';
import { startSilentServer } from '../../servers/silent.js';
import { FaultyFirestore } from './faulty-firestore.js';

const caller = operatorCaller('user_123', 'agent');
const limits = limitsWith({ backendDelayMsMax: 20 });
let server: FirestoreServer;
let faulty: FaultyFirestore;
let data: DataService;
let store: FirestoreDataStore;

beforeAll(async () => {
  server = await start();
  await noteServer(server.describe);
  faulty = new FaultyFirestore(server.firestore);
  store = new FirestoreDataStore(
    {
      firestore: faulty.client(),
      values: FieldValue,
      collection: collectionName,
      messageBytesMax: emulatorMessageBytesMax,
    },
    { limits, nowMs: Date.now },
  );
  data = dataOver({ port: store, limits });
});
afterAll(async () => {
  await data.close();
  await server.stop();
});

async function put(namespace: string, key: string, fields: Record<string, unknown>): Promise<void> {
  const times = { createdAt: '2026-02-05T10:00:00', updatedAt: '2026-02-05T10:00:00' };
  await server.firestore
    .collection(collectionName)
    .doc(documentId('user_123', namespace, key))
    .set({ userId: 'user_123', namespace, key, ...times, ...fields });
}

async function stored(name: string): Promise<Record<string, unknown> | undefined> {
  return (await server.firestore.collection(collectionName).doc(name).get()).data();
}

describe('documents in Firestore (emulator)', () => {
  test("another program finds the seed's fields under the seed's id, the value as JSON text, metadata as a map", async () => {
    await data.set(
      caller,
      'files:my-repo',
      'src/main.py',
      { lines: [1, [2]] },
      { metadata: { language: 'python', tags: ['a'] } },
    );
    expect(await stored('user_123:files:my-repo:c3JjL21haW4ucHk=')).toMatchObject({
      _id: 'user_123:files:my-repo:c3JjL21haW4ucHk=',
      userId: 'user_123',
      namespace: 'files:my-repo',
      key: 'src/main.py',
      value: '{"lines":[1,[2]]}',
      metadata: { language: 'python', tags: ['a'] },
      createdByAgent: 'agent',
      accessCount: 0,
      version: 1,
    });
  });

  test.each([
    ['a legal id stays as it is', 'user_123:n:aw==', 'user_123:n:aw=='],
    ['a slash is escaped, and the colons with it', 'team/a:n:aw==', 'team%2Fa%3An%3Aaw=='],
    ['a percent sign alone is legal', '100%:n:aw==', '100%:n:aw=='],
    [
      'a percent sign beside a slash is escaped, so that nothing can be mistaken for it',
      'a%2Fb/c:n:aw==',
      'a%252Fb%2Fc%3An%3Aaw==',
    ],
    ['underscores on both ends are what Firestore keeps for itself', '__u:n:__', '%5F_u%3An%3A__'],
    [
      'an id over 1,500 bytes is hashed',
      `u:n:${'A'.repeat(1_600)}`,
      expect.stringMatching(/^sha256\.[\w-]{43}$/),
    ],
  ])('%s', (_, id, name) => {
    expect(toName(id)).toEqual(name);
  });

  test('documents under escaped and hashed names are read, listed and deleted like any other', async () => {
    const owner = operatorCaller('__team/a:b%', 'agent');
    const keys = ['k', 'x'.repeat(1_024), '\u{10ffff}'.repeat(200)];
    await data.setMany(owner, 'n/1', Object.fromEntries(keys.map((key) => [key, key.length])));
    for (const key of keys)
      expect(await data.getEntry(owner, 'n/1', key)).toMatchObject({
        _id: documentId('__team/a:b%', 'n/1', key),
        value: key.length,
      });
    expect((await data.listKeys(owner, 'n/1')).items).toHaveLength(3);
    expect(await data.clear(owner, 'n/1')).toBe(3);
  });

  test('metadata that Firestore would refuse is kept as text and comes back', async () => {
    const metadata = { nested: [[1], [2]], '': 'no name', __own__: true };
    await data.set(caller, 'odd', 'k', 1, { metadata });
    expect((await data.getEntry(caller, 'odd', 'k'))?.metadata).toEqual(metadata);
    await data.set(caller, 'odd', 'k', 2, { metadata: { nested: 1 } });
    expect((await data.getEntry(caller, 'odd', 'k'))?.metadata).toEqual({ ...metadata, nested: 1 });
  });

  test("values of Firestore's own types are read as JSON", async () => {
    await put('types', 'k', {
      value: {
        number: 95,
        decimal: 3.14,
        when: new Timestamp(1_770_000_000, 0),
        place: new GeoPoint(1, 2),
        binary: Buffer.from([1, 2]),
        list: [null, true],
        reference: server.firestore.doc('a/b'),
      },
      createdAt: new Timestamp(1_770_000_000, 0),
      accessCount: 4,
    });
    const entry = await data.getEntry(operatorCaller('user_123'), 'types', 'k');
    expect(entry).toMatchObject({ createdAt: '2026-02-02T02:40:00Z', accessCount: 4, version: 1 });
    expect(entry?.value).toEqual({
      number: 95,
      decimal: 3.14,
      when: '2026-02-02T02:40:00.000Z',
      place: { latitude: 1, longitude: 2 },
      binary: 'AQI=',
      list: [null, true],
      reference: 'a/b',
    });
    expect((await data.listKeys(caller, 'types')).items).toMatchObject([
      { key: 'k', sizeBytes: JSON.stringify(entry?.value).length, updatedAt: '2026-02-05T10:00:00Z' },
    ]);
  });

  test('a document that another program rewrote without our fields is read with its new content', async () => {
    await data.set(caller, 'shared', 'k', { ours: true }, { metadata: { a: 1 } });
    const name = documentId('user_123', 'shared', 'k');
    await server.firestore
      .collection(collectionName)
      .doc(name)
      .set({
        ...(await stored(name)),
        value: '{"looks":"like JSON"}',
        metadata: { b: 2 },
        updatedAt: '2030-01-01T00:00:00',
      });
    expect(await data.getEntry(caller, 'shared', 'k')).toMatchObject({
      value: '{"looks":"like JSON"}',
      metadata: { b: 2 },
    });
    await data.set(caller, 'shared', 'k', [1]);
    expect(await data.getEntry(caller, 'shared', 'k')).toMatchObject({
      value: [1],
      metadata: { b: 2 },
      version: 2,
    });
  });

  test('a document over 1 MiB is refused with its size, also when the metadata is what makes it so', async () => {
    const value = 'x'.repeat((data.port.capabilities.valueBytesMax ?? 0) - 2);
    await data.set(caller, 'large', 'k', value);
    await expect(
      data.set(caller, 'large', 'k', value, { metadata: { note: 'y'.repeat(20_000) } }),
    ).rejects.toMatchObject({ code: 'too_large', details: { documentBytesMax: 1_048_576 } });
    expect(await data.get(caller, 'large', 'k')).toBe(value);
  });

  test('a batch is one commit as long as it fits into one message of the server, and refused whole when it does not', async () => {
    const large = 'x'.repeat(900_000);
    const batch = (count: number): Record<string, string> =>
      Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, large]));
    await expect(data.setMany(caller, 'batch', batch(5))).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringMatching(/^The batch needs about 45\d{5} bytes in one commit, .* 4194304 that/),
    });
    expect((await data.listKeys(caller, 'batch')).items).toEqual([]);
    await data.setMany(caller, 'whole', batch(4));
    expect((await data.listKeys(caller, 'whole')).items).toHaveLength(4);
  });

  test('documents that are restored together are written in as many commits as they need', async () => {
    const large = 'x'.repeat(900_000);
    for (let index = 0; index < 6; index += 1) await data.set(caller, 'restored', `k${index}`, large);
    const { items } = await data.listDocuments(caller, 'restored');
    await data.clear(caller, 'restored');
    await store.restore(items);
    expect((await data.listKeys(caller, 'restored')).items).toHaveLength(6);
  });

  test('a batch that meets the document of another owner is not written at all', async () => {
    await data.set(operatorCaller('a:b'), 'c', 'taken', 'theirs');
    await expect(data.setMany(operatorCaller('a'), 'b:c', { free: 1, taken: 2 })).rejects.toMatchObject({
      code: 'id_collision',
    });
    expect((await data.listKeys(operatorCaller('a'), 'b:c')).items).toEqual([]);
  });
});

describe('faults between Stoa and Firestore (emulator)', () => {
  test('requests refused for quota or contention are retried', async () => {
    for (const status of [8, 10, 14]) {
      faulty.fail(status, 'by the test', 3);
      await data.set(caller, 'waits', 'k', status);
      faulty.fail(status, 'by the test', 3);
      expect(await data.get(caller, 'waits', 'k')).toBe(status);
    }
  });

  test('a deletion, a clear and counted reads happen once and say so when their answers are lost', async () => {
    await data.setMany(caller, 'lost', { a: 1, b: 1, c: 1, d: 1 });
    faulty.answersLost = 1;
    expect(await data.delete(caller, 'lost', 'a')).toBe(true);
    expect(await data.delete(caller, 'lost', 'a')).toBe(false);
    faulty.answersLost = 1;
    expect(await data.delete(caller, 'lost', 'd', { ifVersion: 1 })).toBe(true);
    await data.tracker.flush();
    await data.get(caller, 'lost', 'b');
    faulty.answersLost = 1;
    await data.tracker.flush();
    expect([
      faulty.answersLost,
      (await data.port.get({ user: caller.user, namespace: 'lost' }, 'b'))?.accessCount,
    ]).toEqual([0, 1]);
    faulty.answersLost = 1;
    expect(await data.clear(caller, 'lost')).toBe(2);
    expect(faulty.answersLost).toBe(0);
  });

  test('an exhausted quota is a clear error', async () => {
    faulty.fail(8, 'Quota exceeded.');
    await expect(data.set(caller, 'quota', 'k', 1)).rejects.toMatchObject({
      code: 'backend_unavailable',
      message: expect.stringMatching(/throttled the request: 8 Quota exceeded/),
    });
    faulty.recover();
    expect(await data.get(caller, 'quota', 'k')).toBeUndefined();
  });

  test('a message that is too large for the server is refused with too_large and not sent again', async () => {
    faulty.fail(8, 'Received message larger than max (5000000 vs. 4194304)', 1);
    await expect(data.set(caller, 'message', 'k', 1)).rejects.toMatchObject({
      code: 'too_large',
      message: expect.stringMatching(/too large for one message to Firestore/),
    });
    expect(await data.get(caller, 'message', 'k')).toBeUndefined();
  });

  test('a missing index is a configuration error that says how to create it', async () => {
    faulty.fail(
      9,
      'FAILED_PRECONDITION: The query requires an index. You can create it here: https://console…',
    );
    await expect(data.listKeys(caller, 'n')).rejects.toMatchObject({
      code: 'invalid_config',
      fix: expect.stringMatching(/firestore:indexes/),
    });
    faulty.recover();
  });

  test('an unreachable server is an error within the configured time', async () => {
    const given = process.env['FIRESTORE_EMULATOR_HOST'];
    process.env['FIRESTORE_EMULATOR_HOST'] = `127.0.0.1:${await freePort()}`;
    try {
      const opening = openFirestoreDataStore(new URL('firestore://nowhere?database=stoa'), {
        limits: limitsWith({ backendRequestSecondsMax: 1, backendAttemptsMax: 2 }),
        nowMs: Date.now,
      });
      await expect(opening).rejects.toMatchObject({ code: 'backend_unavailable' });
    } finally {
      if (given === undefined) delete process.env['FIRESTORE_EMULATOR_HOST'];
      else process.env['FIRESTORE_EMULATOR_HOST'] = given;
    }
  });

  test('a list of namespaces stops when its caller disconnects', async () => {
    const user = operatorCaller('gone');
    for (const namespace of ['a', 'b', 'c']) await data.set(user, namespace, 'k', 1);
    let looks = 0;
    const gone = {
      get aborted() {
        looks += 1;
        return looks > 2;
      },
    };
    await expect(data.listNamespaces(user, { signal: gone })).rejects.toMatchObject({ code: 'cancelled' });
    expect(looks).toBe(3);
  });

  test('a close ends running requests to a server that never answers', async () => {
    const silent = await startSilentServer();
    const given = process.env['FIRESTORE_EMULATOR_HOST'];
    process.env['FIRESTORE_EMULATOR_HOST'] = silent.address;
    try {
      const patient = limitsWith({ backendRequestSecondsMax: 3_600 });
      const hanging = dataOver({
        port: await openFirestoreDataStore(new URL('firestore://nowhere'), {
          limits: patient,
          nowMs: Date.now,
          prepare: false,
        }),
        limits: patient,
      });
      const reads = [hanging.get(caller, 'n', 'k'), hanging.listKeys(caller, 'n')];
      const waiting = Promise.allSettled(reads);
      await silent.connected;
      await hanging.close();
      expect(
        (await waiting).map((outcome) => outcome.status === 'rejected' && (outcome.reason as StoaError).code),
      ).toEqual(['closed', 'closed']);
      await expect(hanging.set(caller, 'n', 'k', 1)).rejects.toMatchObject({ code: 'closed' });
    } finally {
      await silent.stop();
      if (given === undefined) delete process.env['FIRESTORE_EMULATOR_HOST'];
      else process.env['FIRESTORE_EMULATOR_HOST'] = given;
    }
  });

  test('a URL without a project is refused', async () => {
    await expect(
      openFirestoreDataStore(new URL('firestore:///x'), { limits, nowMs: Date.now }),
    ).rejects.toMatchObject({ code: 'invalid_config' });
  });

  test('a commit whose answer was lost happens once', async () => {
    // Counted reads that are written meanwhile would lose their answer instead.
    await data.tracker.flush();
    await data.increment(caller, 'lost', 'count');
    faulty.answersLost = 1;
    expect(await data.increment(caller, 'lost', 'count')).toMatchObject({ value: 2, version: 2 });
    faulty.answersLost = 1;
    expect(await data.set(caller, 'lost', 'new', 'x', { ifVersion: 0 })).toMatchObject({ version: 1 });
    expect(faulty.answersLost).toBe(0);
    expect(await data.getEntry(caller, 'lost', 'count')).toMatchObject({ value: 2, version: 2 });
  });

  test('a commit whose answer was lost happens once, also when others have written since', async () => {
    // Counted reads that are written meanwhile would lose their answer instead.
    await data.tracker.flush();
    await data.increment(caller, 'overtaken', 'count');
    faulty.answersLost = 1;
    faulty.afterLost = async () => {
      for (let round = 0; round < 3; round += 1)
        await data.increment(operatorCaller('user_123', 'other'), 'overtaken', 'count', 10);
    };
    expect(await dataOver({ port: store, limits }).increment(caller, 'overtaken', 'count')).toMatchObject({
      value: 2,
      version: 2,
    });
    expect(await data.getEntry(caller, 'overtaken', 'count')).toMatchObject({ value: 32, version: 5 });
  });
});

describe('clearing while others work (emulator)', () => {
  test('a document changed during a clear is deleted too, and a document deleted by others is not counted', async () => {
    await data.setMany(caller, 'cleared', { a: 1, b: 2, c: 3 });
    // The first commit of the clear finds one document changed and another one gone.
    faulty.beforeCommit = async () => {
      const documents = server.firestore.collection(collectionName);
      await documents.doc(documentId('user_123', 'cleared', 'a')).update({ accessCount: 7 });
      await documents.doc(documentId('user_123', 'cleared', 'b')).delete();
    };
    expect(await data.clear(caller, 'cleared')).toBe(2);
    expect((await data.listKeys(caller, 'cleared')).items).toEqual([]);
  });
});
