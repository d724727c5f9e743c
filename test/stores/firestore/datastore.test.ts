import { FieldValue } from '@google-cloud/firestore';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { emulatorMessageBytesMax } from '../../../src/stores/firestore/client.js';
import { FirestoreDataStore } from '../../../src/stores/firestore/datastore.js';
import type { StoreOptions } from '../../../src/stores/options.js';
import { collectionName } from '../../../src/datastore/model.js';
import { dataStoreConformance } from '../../../src/datastore/conformance/index.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { type FirestoreServer, start } from '../../servers/firestore.js';
import { noteServer } from '../../servers/shared.js';
import { FaultyFirestore } from './faulty-firestore.js';

let server: FirestoreServer;
let faulty: FaultyFirestore;
beforeAll(async () => {
  server = await start();
  faulty = new FaultyFirestore(server.firestore);
  await noteServer(server.describe);
});
afterAll(() => server.stop());

async function open(options: StoreOptions): Promise<FirestoreDataStore> {
  const store = new FirestoreDataStore(
    {
      firestore: faulty.client(),
      values: FieldValue,
      collection: collectionName,
      messageBytesMax: emulatorMessageBytesMax,
    },
    { ...options, limits: limitsWith({ ...options.limits, backendDelayMsMax: 50 }) },
  );
  await store.checkIndexes();
  return store;
}

describe('the data store on Firestore (emulator)', () => {
  dataStoreConformance((name, body) => test(name, body, 300_000), {
    size: process.env['STORES'] === 'full' ? 'full' : 'small',
    open,
    putForeign: async ({ _id, ...fields }) => {
      await server.firestore.collection(collectionName).doc(String(_id)).set(fields);
    },
    outage: {
      stop: async () => faulty.fail(14, 'No connection established'),
      start: async () => faulty.recover(),
    },
  });
});
