/** Documents on their way between DynamoDB and Firestore, both emulators. */
import { FieldValue } from '@google-cloud/firestore';
import { expect, onTestFinished, test } from 'vitest';
import { openDynamodbDataStore } from '../../src/stores/dynamodb/open.js';
import { MemoryDataStore } from '../../src/stores/memory/datastore.js';
import { emulatorMessageBytesMax } from '../../src/stores/firestore/client.js';
import { FirestoreDataStore } from '../../src/stores/firestore/datastore.js';
import { documentId } from '../../src/datastore/documents/document-id.js';
import { collectionName } from '../../src/datastore/model.js';
import { capacityOf } from '../../src/open/datastore.js';
import { moveDocuments, surveyDocuments } from '../../src/datastore/transfer/move.js';
import { operatorCaller } from '../../src/core/caller.js';
import { limitsWith } from '../../src/core/settings/limits.js';
import { start as startFirestore } from '../servers/firestore.js';
import { noteServer, sharedServer, uniqueName } from '../servers/shared.js';
import { dropTable, dynamodb, putNative } from './dynamodb/table.js';
import { FaultyFirestore } from './firestore/faulty-firestore.js';
import { storeDocuments } from '../../src/datastore/document-store/documents.js';
import { dataOver } from '../datastore/data-over.js';

test('a dry run names the documents that the target cannot hold, and the move and an import refuse the same ones (emulator)', async () => {
  const options = { limits: limitsWith(), nowMs: Date.now };
  const { url } = await sharedServer('dynamodb');
  const table = uniqueName('small');
  onTestFinished(() => dropTable(url, table));
  const [from, to] = [
    new MemoryDataStore(options),
    await openDynamodbDataStore(new URL(dynamodb(url, table)), options),
  ];
  try {
    const source = dataOver({ port: from, limits: options.limits });
    await source.setMany(operatorCaller('u'), 'n', { large: 'x'.repeat(500_000), small: 1 });
    const refused = [
      { id: documentId('u', 'n', 'large'), reason: expect.stringContaining('dynamodb') as string },
    ];
    expect(
      await surveyDocuments(
        { from, limits: options.limits },
        await capacityOf(dynamodb(url, uniqueName('unmade'))),
      ),
    ).toEqual({ documents: 2, oversized: [], refused });
    expect(
      await moveDocuments({
        from,
        to: storeDocuments(to, options.limits),
        limits: options.limits,
      }),
    ).toMatchObject({
      copied: 1,
      verified: false,
      refused: [{ id: refused[0]?.id }],
    });
    const target = dataOver({ port: to, limits: options.limits });
    const documents = [
      {
        userId: 'u',
        namespace: 'n',
        key: 'large',
        value: 'x'.repeat(500_000),
        createdAt: '2026-02-05T10:00:00Z',
      },
    ];
    await expect(
      target.transfer.import(operatorCaller('u'), documents, { dryRun: true }),
    ).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('500002 bytes') as string,
    });
  } finally {
    for (const store of [from, to]) await store.close();
  }
});

test('documents of Stoa and of other programs move from DynamoDB to Firestore and back unchanged (emulators)', async () => {
  const options = { limits: limitsWith(), nowMs: Date.now };
  const { url } = await sharedServer('dynamodb');
  const server = await startFirestore();
  await noteServer(server.describe);
  const tables = [uniqueName('move'), uniqueName('moved')] as const;
  onTestFinished(async () => {
    for (const table of tables) await dropTable(url, table);
  });
  const [source, target] = [
    await openDynamodbDataStore(new URL(dynamodb(url, tables[0])), options),
    await openDynamodbDataStore(new URL(dynamodb(url, tables[1])), options),
  ];
  const between = new FirestoreDataStore(
    {
      firestore: new FaultyFirestore(server.firestore).client(),
      values: FieldValue,
      collection: collectionName,
      messageBytesMax: emulatorMessageBytesMax,
    },
    options,
  );
  try {
    const data = dataOver({ port: source, limits: options.limits });
    for (const user of ['u1', 'team/a', '__x']) {
      const caller = operatorCaller(user, 'agent');
      await data.setMany(caller, 'n', { a: [[1], { z: 1, a: 2 }], 'slash/key': null, '😀': 'x', k: 1e300 });
      await data.set(caller, 'ns:2', 'with', 1, { metadata: { nested: [[1]], huge: 1e300 }, ttl: 3600 });
      await data.get(caller, 'n', 'a');
    }
    await data.tracker.flush();
    await putNative(url, tables[0], {
      _id: documentId('u1', 'stock', 'k'),
      userId: 'u1',
      namespace: 'stock',
      key: 'k',
      value: { score: 95, items: ['a', ['b']] },
      createdAt: '2026-02-01T10:30:00',
      updatedAt: '2026-02-05T14:22:00.123456',
    });
    for (const [from, to] of [
      [source, between],
      [between, target],
    ] as const) {
      const result = await moveDocuments({
        from,
        to: storeDocuments(to, options.limits),
        limits: options.limits,
      });
      expect(result).toMatchObject({ documents: 16, copied: 16, refused: [], different: [], verified: true });
    }
    const [there] = await target.getMany({ user: 'u1', namespace: 'stock' }, ['k']);
    expect(there).toMatchObject({
      valueJson: '{"score":95,"items":["a",["b"]]}',
      createdAt: '2026-02-01T10:30:00Z',
      updatedAt: '2026-02-05T14:22:00.123456Z',
      version: 1,
      accessCount: 0,
    });
    expect(await target.get({ user: 'team/a', namespace: 'n' }, 'a')).toMatchObject({
      accessCount: 1,
      valueJson: '[[1],{"z":1,"a":2}]',
    });
    expect(
      (await target.listNamespaces('__x', null, 10)).map(({ namespace, count, agents }) => [
        namespace,
        count,
        agents,
      ]),
    ).toEqual([
      ['n', 4, ['agent']],
      ['ns:2', 1, ['agent']],
    ]);
  } finally {
    for (const store of [source, target, between]) await store.close();
    await server.stop();
  }
});
