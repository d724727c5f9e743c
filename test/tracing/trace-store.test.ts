import { expect, test } from 'vitest';
import { openStoa } from '../../src/index.js';
import { traceStore } from '../../src/tracing/trace-store.js';
import { Tracer } from '../../src/tracing/tracer.js';

test('a store with traces tells its callers the same as one without: what is durable, and at once what is undone', async () => {
  const stoa = await openStoa({ data: '', engine: 'memory' });
  traceStore(
    stoa,
    new Tracer({
      sampler: { followsParent: true, ratio: 1 },
      onEnd: () => undefined,
      close: async () => undefined,
    }),
  );
  const told: string[] = [];
  const failing = stoa.kernel.root.transact((tx) => {
    tx.onUndone(() => told.push('undone'));
    throw new Error('refused inside');
  });
  expect(told).toEqual(['undone']);
  await expect(failing).rejects.toThrow('refused inside');
  await stoa.kernel.root.transact((tx) => {
    tx.change({ domain: 'data', kind: 'document.set', id: 'n/k', user: null, version: 1 });
    tx.onDurable(() => told.push('durable'));
  });
  expect(told).toEqual(['undone', 'durable']);
  await stoa.close();
});
