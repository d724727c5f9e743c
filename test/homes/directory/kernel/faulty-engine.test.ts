import { beforeEach, expect, it } from 'vitest';
import { storeConfigDefaults } from '../../../../src/core/settings/store-config.js';
import { openMemory } from '../../../../src/homes/directory/kernel/engines/memory.js';
import { engineConformance } from './engines/engine-conformance.js';
import { FaultyEngine } from './faulty-engine.js';

engineConformance(
  'faulty, told no faults,',
  async (config, families) => new FaultyEngine(await openMemory(config, families)),
  false,
);

const key = Buffer.from('key');
let engine: FaultyEngine;

beforeEach(async () => {
  engine = new FaultyEngine(await openMemory(storeConfigDefaults, ['documents']));
});

function commit(value: string): Promise<void> {
  return engine.commit([{ family: 'documents', key, value: Buffer.from(value) }]);
}

it('fails the requested number of commits', async () => {
  engine.failNext('before', 'disk_full', 'after');
  await expect(commit('1')).rejects.toMatchObject({ code: 'engine' });
  await expect(commit('2')).rejects.toMatchObject({ code: 'disk_full' });
  expect(engine.get('documents', key)).toBeUndefined();
  await expect(commit('3')).rejects.toMatchObject({ code: 'engine' });
  expect(engine.get('documents', key)?.toString()).toBe('3');
  await commit('4');
  expect([engine.commits, engine.committed.length]).toEqual([4, 2]);
});

it('delays commits until they are released', async () => {
  const release = engine.holdCommits();
  let done = false;
  const held = commit('1').then(() => {
    done = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect([done, engine.get('documents', key)]).toEqual([false, undefined]);
  release();
  await held;
  engine.delayCommits(1);
  await commit('2');
  expect(engine.get('documents', key)?.toString()).toBe('2');
});
