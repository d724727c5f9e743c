import { afterAll, beforeAll, describe, test } from 'vitest';
import { type DynamodbDataStore, openDynamodbDataStore } from '../../src/backends/dynamodb/datastore.js';
import { dataStoreConformance } from '../../src/datastore/conformance/index.js';
import { limitsWith } from '../../src/limits.js';
import { FaultyProxy } from '../servers/faulty-proxy.js';
import { sharedServer } from '../servers/shared.js';
import { dynamodb, putNative } from './dynamodb-table.js';

let proxy: FaultyProxy;
beforeAll(async () => {
  proxy = new FaultyProxy((await sharedServer('dynamodb')).url);
  await proxy.start();
});
afterAll(() => proxy.stop());

const table = `conformance_${process.pid}`;
const open = (options: Parameters<typeof openDynamodbDataStore>[1]): Promise<DynamodbDataStore> => openDynamodbDataStore(new URL(dynamodb(proxy.url, table)), options);

// The emulator writes a few hundred items a second.
const patiently = (name: string, body: () => Promise<void>): void => test(name, body, 300_000);

describe('the data store on DynamoDB (emulator)', () => {
  dataStoreConformance(patiently, {
    open: (options) => open({ ...options, limits: limitsWith({ ...options.limits, backendDelayMsMax: 50 }) }),
    putForeign: (document) => putNative(proxy.url, table, document),
    outage: { stop: () => proxy.stop(), start: () => proxy.start() },
  });
});
