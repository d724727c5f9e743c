/** The data store on DynamoDB Local, behind a proxy that causes faults. */
import { dataOver } from '../../datastore/data-over.js';
import { afterAll, afterEach, beforeAll } from 'vitest';
import { openDynamodbDataStore } from '../../../src/stores/dynamodb/open.js';
import type { DynamodbDataStore } from '../../../src/stores/dynamodb/datastore.js';
import type { DataService } from '../../../src/datastore/service.js';
import { operatorCaller } from '../../../src/core/caller.js';
import { type Limits, limitsWith } from '../../../src/core/settings/limits.js';
import { type Answer, FaultyProxy } from '../../servers/faulty-proxy.js';
import { sharedServer, uniqueName } from '../../servers/shared.js';
import { dropTable, dynamodb } from './table.js';

export const caller = operatorCaller('user-1', 'agent');

export function refusal(type: string, message = 'by the test'): Answer {
  return { status: 400, body: { __type: `com.amazonaws.dynamodb.v20120810#${type}`, message } };
}

export function operationOf(target: string): string {
  return target.split('.').at(-1) ?? target;
}

/** A proxy and a table for a suite. The faults end with each test. */
export function useFaultyDynamodb() {
  let proxy: FaultyProxy;
  const opened: DynamodbDataStore[] = [];
  const services: DataService[] = [];
  const table = uniqueName('faults');

  beforeAll(async () => {
    proxy = new FaultyProxy((await sharedServer('dynamodb')).url);
    await proxy.start();
  });
  afterEach(() => proxy.heal());
  afterAll(async () => {
    for (const service of services) await service.close();
    for (const name of [table, `${table}_namespaces`]) await dropTable(proxy.url, name);
    await proxy.stop();
  });

  async function open(
    overrides: Partial<Limits> = {},
    name = table,
    onError?: (error: unknown) => void,
  ): Promise<DataService> {
    const limits = limitsWith({ backendDelayMsMax: 20, ...overrides });
    const port = await openDynamodbDataStore(new URL(dynamodb(proxy.url, name)), { limits, nowMs: Date.now });
    opened.push(port);
    const service = dataOver({ port, limits, ...(onError && { onError }) });
    services.push(service);
    return service;
  }

  return {
    get proxy() {
      return proxy;
    },
    table,
    opened,
    open,
  };
}
