import { afterEach, expect, it, vi } from 'vitest';
import { type OpenStore, bytes, items, openStore, others, text } from './open-store.js';

let opened: OpenStore;
afterEach(() => opened.store.close());

/** The number of engine reads while `count` transactions read the row one after the other. */
async function engineReads(family: string, count: number): Promise<number> {
  const reads = vi.spyOn(opened.engine, 'get');
  for (let at = 0; at < count; at += 1) await opened.store.transact((tx) => text(tx, 'a', family));
  const { length } = reads.mock.calls;
  reads.mockRestore();
  return length;
}

it('reads a row of a hot family once from the engine, and other rows each time', async () => {
  opened = await openStore();
  for (const family of [items, others])
    await opened.store.transact((tx) => tx.put(family, bytes('a'), bytes('1')));
  expect(await engineReads(others, 5)).toBe(1);
  expect(await engineReads(items, 5)).toBe(5);
});

it('shows a change to the next transaction, before it is on disk and after', async () => {
  opened = await openStore();
  const { store } = opened;
  await store.transact((tx) => tx.put(others, bytes('a'), bytes('1')));
  await store.transact((tx) => text(tx, 'a', others));
  const writing = store.transact((tx) => tx.put(others, bytes('a'), bytes('2')));
  expect(await store.transact((tx) => text(tx, 'a', others))).toBe('2');
  await writing;
  expect(await store.transact((tx) => text(tx, 'a', others))).toBe('2');
  await store.transact((tx) => tx.delete(others, bytes('a')));
  expect(await store.transact((tx) => text(tx, 'a', others))).toBeUndefined();
});

it('keeps the old row after a failed commit', async () => {
  opened = await openStore();
  const { store, engine } = opened;
  await store.transact((tx) => tx.put(others, bytes('a'), bytes('1')));
  await store.transact((tx) => text(tx, 'a', others));
  engine.failNext('disk_full');
  await expect(store.transact((tx) => tx.put(others, bytes('a'), bytes('2')))).rejects.toMatchObject({
    code: 'disk_full',
  });
  expect(await store.transact((tx) => text(tx, 'a', others))).toBe('1');
});

it('does not cache long or missing rows', async () => {
  opened = await openStore();
  expect(await engineReads(others, 3)).toBe(3);
  await opened.store.transact((tx) => tx.put(others, bytes('a'), Buffer.alloc(5_000)));
  expect(await engineReads(others, 3)).toBe(3);
});
