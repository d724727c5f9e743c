/**
 * The conformance suite of the data store: what every backend must do. It needs no test runner of
 * its own; pass the function that registers a test.
 *
 * @example
 * import { test } from 'node:test';
 * import { dataStore } from 'stoa/conformance';
 * dataStore(test, { open: async ({ limits, nowMs }) => new MyDataStore({ limits, nowMs }) });
 */
import { ConformanceContext, type ConformanceTarget, type RegisterTest } from './context.js';
import { documentTests } from './documents.js';
import { foreignTests } from './foreign.js';
import { listTests } from './lists.js';
import { trackingTests } from './tracking.js';
import { versionTests } from './versions.js';

export type { ConformanceTarget, OpenOptions, RegisterTest } from './context.js';

export function dataStoreConformance(test: RegisterTest, target: ConformanceTarget): void {
  const context = new ConformanceContext(target);
  documentTests(test, context);
  versionTests(test, context);
  listTests(test, context);
  trackingTests(test, context);
  foreignTests(test, context);
  test('it closes', () => context.close());
}
