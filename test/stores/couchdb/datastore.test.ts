import { afterAll, beforeAll, describe, test } from 'vitest';
import { openCouchDataStore } from '../../../src/stores/couchdb/open.js';
import { type CouchDataStore } from '../../../src/stores/couchdb/datastore.js';
import { dataStoreConformance } from '../../../src/datastore/conformance/index.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { type Gate, startGate } from '../../servers/gate.js';
import { sharedServer, uniqueName } from '../../servers/shared.js';
import { callCouchdb, couchdbUrl } from './database.js';

let server: string;
let gate: Gate;
beforeAll(async () => {
  server = (await sharedServer('couchdb')).url;
  gate = await startGate(server);
});
afterAll(() => gate.close());

const database = uniqueName('conformance');

describe('the data store on CouchDB (emulator unless COUCHDB_URL is set)', () => {
  dataStoreConformance((name, body) => test(name, body, 300_000), {
    size: process.env['STORES'] === 'full' ? 'full' : 'small',
    open: (options): Promise<CouchDataStore> =>
      openCouchDataStore(couchdbUrl(server, database, gate.url), {
        ...options,
        limits: limitsWith({ ...options.limits, backendDelayMsMax: 50, backendAttemptsMax: 3 }),
      }),
    putForeign: async (document) => {
      await callCouchdb(server, 'POST', `/${database}`, document);
    },
    outage: { stop: () => gate.close(), start: () => gate.open() },
  });
});
