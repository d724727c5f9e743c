/** Firestore for the tests: an in-process emulator behind the real SDK, or the one at FIRESTORE_EMULATOR_HOST. */
import { FirestoreMock } from '@firebase-bridge/firestore-admin';
import { Firestore } from '@google-cloud/firestore';
import type { TestServer } from './child.js';

export interface FirestoreServer extends TestServer {
  firestore: Firestore;
}

const projectId = 'stoa-test';

/** It lives in the calling process, so each suite has one of its own. */
export async function start(): Promise<FirestoreServer> {
  const given = process.env['FIRESTORE_EMULATOR_HOST'];
  if (given !== undefined && given !== '') {
    const firestore = new Firestore({ projectId });
    return { url: `firestore://${projectId}`, describe: `Firestore emulator at ${given} (given)`, firestore, stop: () => firestore.terminate() };
  }
  const mock = new FirestoreMock();
  const database = mock.createDatabase(projectId);
  return {
    url: `firestore://${projectId}`,
    describe: 'Firestore emulator (@firebase-bridge/firestore-admin, in process)',
    // The emulator is built on its own copy of the same SDK, whose class differs only by where it was loaded from.
    firestore: database.firestore() as unknown as Firestore,
    stop: async () => mock.deleteAll(),
  };
}
