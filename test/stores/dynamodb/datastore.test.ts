import { afterAll, beforeAll, describe, test } from 'vitest';
import { openDynamodbDataStore } from '../../../src/stores/dynamodb/open.js';
import { type DynamodbDataStore } from '../../../src/stores/dynamodb/datastore.js';
import { dataStoreConformance } from '../../../src/datastore/conformance/index.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { type Gate, startGate } from '../../servers/gate.js';
import { sharedServer, uniqueName } from '../../servers/shared.js';
import { dropTable, dynamodb, putNative } from './table.js';

let direct: string;
let gate: Gate;
beforeAll(async () => {
  direct = (await sharedServer('dynamodb')).url;
  gate = await startGate(direct);
});
afterAll(async () => {
  await gate.close();
  await dropTable(direct, table);
});

const table = uniqueName('conformance');
const open = (options: Parameters<typeof openDynamodbDataStore>[1]): Promise<DynamodbDataStore> =>
  openDynamodbDataStore(new URL(dynamodb(gate.url, table)), options);

describe('the data store on DynamoDB', () => {
  dataStoreConformance((name, body) => test(name, body, 300_000), {
    size: process.env['STORES'] === 'full' ? 'full' : 'small',
    open: (options) => open({ ...options, limits: limitsWith({ ...options.limits, backendDelayMsMax: 50 }) }),
    putForeign: (document) => putNative(direct, table, document),
    outage: { stop: () => gate.close(), start: () => gate.open() },
  });
});
