import { describe, test } from 'vitest';
import { MemoryDataStore } from '../../src/backends/memory/datastore.js';
import { dataStoreConformance } from '../../src/datastore/conformance/index.js';

describe('the data store in memory', () => {
  let shared: MemoryDataStore | undefined;
  dataStoreConformance(test, {
    // One map stands for the storage that several processes share.
    open: async (options) => (shared ??= new MemoryDataStore(options)),
  });
});
