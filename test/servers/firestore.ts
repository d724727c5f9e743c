/**
 * Firestore for the tests: the emulator at FIRESTORE_EMULATOR_HOST, or Google's where its CLI is installed,
 * or one in the process.
 */
import { existsSync, realpathSync } from 'node:fs';
import { createRequire } from 'node:module';
import { delimiter, dirname, join } from 'node:path';
import { Firestore } from '@google-cloud/firestore';
import { compareCodePoints } from '../../src/datastore/documents/code-point-order.js';
import { Child, type TestServer, freePort } from './child.js';
import { sharedServer, uniqueName } from './shared.js';

export interface FirestoreServer extends TestServer {
  firestore: Firestore;
}

/** Each suite has a separate project, and so a separate database. */
export async function start(): Promise<FirestoreServer> {
  const projectId = uniqueName('stoa').replace('_', '-');
  const given = process.env['FIRESTORE_EMULATOR_HOST'];
  if (given !== undefined && given !== '')
    return connect(projectId, given, `Firestore emulator at ${given} (given)`);
  if (googleEmulator() !== undefined) {
    const { url, describe } = await sharedServer('firestore');
    return connect(projectId, new URL(url).host, describe);
  }
  const { FirestoreMock } = loadEmulator();
  const mock = new FirestoreMock();
  const database = mock.createDatabase(projectId);
  return {
    url: `firestore://${projectId}`,
    describe: 'Firestore emulator (@firebase-bridge/firestore-admin, in process)',
    // The emulator is built on its own copy of the same SDK, whose class differs only by where it was loaded
    // from.
    firestore: database.firestore() as unknown as Firestore,
    stop: async () => mock.deleteAll(),
  };
}

/** Google's emulator, one for all suites. */
export async function startGoogleEmulator(): Promise<TestServer> {
  const jar = googleEmulator();
  if (jar === undefined) throw new Error("Google's Firestore emulator is not installed.");
  const port = await freePort();
  // Its start script leaves Java running when the script is ended, so Java is started here.
  const child = new Child("Google's Firestore emulator", 'java', [
    '-Duser.language=en',
    '-XX:TieredStopAtLevel=1',
    '-XX:+UseSerialGC',
    '-Xmx512m',
    '-cp',
    jar,
    'com.google.cloud.datastore.emulator.firestore.CloudFirestore',
    'start',
    '--host=127.0.0.1',
    `--port=${port}`,
  ]);
  const url = `http://127.0.0.1:${port}`;
  await child.until(() =>
    fetch(url).then(
      () => true,
      () => false,
    ),
  );
  return { url, describe: "Firestore emulator (Google's)", stop: () => child.stop() };
}

/** The emulator that comes with the Google Cloud CLI, beside the program `gcloud`. */
function googleEmulator(): string | undefined {
  const gcloud = (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((directory) => join(directory, 'gcloud'))
    .find((path) => existsSync(path));
  if (gcloud === undefined) return undefined;
  const home = dirname(dirname(realpathSync(gcloud)));
  const jar = join(home, 'platform', 'cloud-firestore-emulator', 'cloud-firestore-emulator.jar');
  return existsSync(jar) ? jar : undefined;
}

/** The driver takes the address of an emulator only from this variable, when a client is made. */
function connect(projectId: string, host: string, describe: string): FirestoreServer {
  const before = process.env['FIRESTORE_EMULATOR_HOST'];
  process.env['FIRESTORE_EMULATOR_HOST'] = host;
  const firestore = new Firestore({ projectId });
  if (before === undefined) delete process.env['FIRESTORE_EMULATOR_HOST'];
  else process.env['FIRESTORE_EMULATOR_HOST'] = before;
  return { url: `firestore://${projectId}`, describe, firestore, stop: () => firestore.terminate() };
}

type Emulator = typeof import('@firebase-bridge/firestore-admin');

/**
 * The service orders text by its UTF-8 bytes; the emulator compares UTF-16 code units, and says so
 * in its source. Its CommonJS build looks the comparison up at every call, so that it can be replaced.
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
