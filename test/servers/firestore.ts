/** Firestore for the tests: an in-process emulator behind the real SDK, or the one at FIRESTORE_EMULATOR_HOST. */
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { Firestore } from '@google-cloud/firestore';
import { compareCodePoints } from '../../src/datastore/code-point-order.js';
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
    return {
      url: `firestore://${projectId}`,
      describe: `Firestore emulator at ${given} (given)`,
      firestore,
      stop: () => firestore.terminate(),
    };
  }
  const { FirestoreMock } = loadEmulator();
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

type Emulator = typeof import('@firebase-bridge/firestore-admin');

/**
 * The service orders text by its UTF-8 bytes; the emulator compares UTF-16 code units, and says so
 * in its source. Its CommonJS build looks the comparison up at every call, so that it can be mended.
 */
function loadEmulator(): Emulator {
  const require = createRequire(import.meta.url);
  const main = require.resolve('@firebase-bridge/firestore-admin');
  const comparison = require(
    join(dirname(main), 'lib/_internal/mock-gapic-client/utils/compare-values.js'),
  ) as { compareValues(a: unknown, b: unknown): number };
  const { compareValues } = comparison;
  comparison.compareValues = (a, b) =>
    typeof a === 'string' && typeof b === 'string' ? compareCodePoints(a, b) : compareValues(a, b);
  return require(main) as Emulator;
}
