import { afterEach, expect, it } from 'vitest';
import { RowCache } from '../../../../src/homes/directory/kernel/row-cache.js';
import { type OpenStore, items, openStore, others } from './open-store.js';

let opened: OpenStore;
afterEach(() => opened.store.close());

const key = (text: string) => Buffer.from(text);

async function openCache(sizeMax = 10) {
  opened = await openStore();
  const cache = new RowCache<string>([opened.store], sizeMax, (operation) =>
    operation.family === items ? operation.key.toString() : undefined,
  );
  return { store: opened.store, cache };
}

it('drops exactly the rows that a commit wrote, before the writer gets its answer', async () => {
  const { store, cache } = await openCache();
  for (const name of ['a', 'b', 'c']) cache.set(name, 'old');
  const written = store.transact((tx) => {
    tx.put(items, key('a'), key('new'));
    tx.delete(items, key('b'));
    tx.put(others, key('c'), key('new'));
  });
  expect(cache.get('a')).toBe('old');
  await written;
  expect(['a', 'b', 'c'].map((name) => cache.get(name))).toEqual([undefined, undefined, 'old']);
});

it('keeps what a failed commit would have changed', async () => {
  const { store, cache } = await openCache();
  cache.set('a', 'old');
  opened.engine.failNext('disk_full');
  await expect(store.transact((tx) => tx.put(items, key('a'), key('new')))).rejects.toThrow();
  expect(cache.get('a')).toBe('old');
});

it('never holds more than its limit', async () => {
  const { cache } = await openCache(2);
  for (const name of ['a', 'b', 'c']) cache.set(name, name);
  expect(['a', 'b', 'c'].map((name) => cache.get(name))).toEqual([undefined, 'b', 'c']);
});
