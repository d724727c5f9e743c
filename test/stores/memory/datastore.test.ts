import { afterEach, describe, expect, test, vi } from 'vitest';
import { MemoryDataStore } from '../../../src/stores/memory/datastore.js';
import { dataStoreConformance } from '../../../src/datastore/conformance/index.js';
import { limitsWith } from '../../../src/core/settings/limits.js';
import { dataOver } from '../../datastore/data-over.js';

describe('the data store in memory', () => {
  let shared: MemoryDataStore | undefined;
  dataStoreConformance(test, {
    // One map represents the storage that several processes share.
    open: async (options) => (shared ??= new MemoryDataStore(options)),
  });
});

afterEach(() => vi.useRealTimers());

test('no second sweep starts while one hangs, and a close waits for it', async () => {
  vi.useFakeTimers();
  const limits = limitsWith();
  const port = new MemoryDataStore({ limits, nowMs: Date.now });
  const ends: ((swept: number) => void)[] = [];
  const sweepExpired = vi.fn(() => new Promise<number>((resolve) => ends.push(resolve)));
  const closed = vi.spyOn(port, 'close');
  const data = dataOver({ port: Object.assign(port, { sweepExpired }), limits });
  data.start();
  await vi.advanceTimersByTimeAsync(600_000);
  expect(sweepExpired).toHaveBeenCalledTimes(1);
  const closing = data.close();
  await vi.advanceTimersByTimeAsync(0);
  expect(closed).not.toHaveBeenCalled();
  // As many as a step takes: there may be more, but not during a close.
  for (const end of ends) end(limits.clearStepMax);
  await closing;
  expect(closed).toHaveBeenCalledOnce();
  expect(sweepExpired).toHaveBeenCalledTimes(1);
});
