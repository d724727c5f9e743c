/** Opens the data store on Firestore that a URL names. */
import { StoaError } from '../../core/errors.js';
import { collectionName } from '../../datastore/model.js';
import type { StoreOptions } from '../options.js';
import { emulatorMessageBytesMax, loadDriver, serviceMessageBytesMax } from './client.js';
import { FirestoreDataStore } from './datastore.js';

/** `firestore://project[/collection]?database=…`; the default collection is `agent_data_store`. */
export async function openFirestoreDataStore(url: URL, options: StoreOptions): Promise<FirestoreDataStore> {
  if (url.hostname === '')
    throw new StoaError('invalid_config', 'The Firestore URL has no project.', {
      fix: 'Write the URL as firestore://my-project.',
    });
  const driver = await loadDriver();
  const database = url.searchParams.get('database');
  // The variable by which the driver finds an emulator.
  const isEmulator = (process.env['FIRESTORE_EMULATOR_HOST'] ?? '') !== '';
  const firestore = new driver.Firestore({
    projectId: decodeURIComponent(url.hostname),
    ...(database !== null && { databaseId: database }),
  });
  const store = new FirestoreDataStore(
    {
      firestore,
      values: driver.FieldValue,
      collection: decodeURIComponent(url.pathname.slice(1)) || collectionName,
      messageBytesMax: isEmulator ? emulatorMessageBytesMax : serviceMessageBytesMax,
    },
    options,
  );
  try {
    if (options.prepare !== false) await store.checkIndexes();
  } catch (error) {
    await store.close();
    throw error;
  }
  return store;
}
