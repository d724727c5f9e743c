/** How often the doctor reads all timers, for records whose own timer is missing. */
import { afterAll, expect, it, vi } from 'vitest';
import { SharedTimers } from '../../../../src/homes/directory/doctor/timers.js';
import { kernelFamilies } from '../../../../src/homes/directory/kernel/families.js';
import { type Check, examine, turn } from '../../../../src/homes/directory/kernel/inspect/doctor.js';
import { bytes, items, openStore, others, removeDirectories } from '../kernel/open-store.js';

afterAll(removeDirectories);

const timerOf = (reference: Buffer) => ({ atMs: 1_000, kind: 'ring', reference });

function timersOfItems(timers: SharedTimers): Check {
  return {
    family: items,
    inspect: (row) => timers.inspect(row, timerOf(row.key), 'The timer is missing.', { orAny: true }),
  };
}

it('at most twice for a page, while the store is written', async () => {
  const { store, engine } = await openStore();
  await store.transact((tx) => {
    for (let at = 100; at < 120; at += 1) tx.put(items, bytes(`item ${at}`), bytes('v'));
    tx.schedule({ ...timerOf(bytes('item 103')), atMs: 500 });
  });
  let readings = 0;
  const range = engine.range.bind(engine);
  vi.spyOn(engine, 'range').mockImplementation((family, options) => {
    if (family === kernelFamilies.timers) {
      readings += 1;
      queueMicrotask(() => {
        void store.transact((tx) => tx.put(others, bytes(String(readings)), bytes('meanwhile')));
      });
    }
    return range(family, options);
  });
  const found: string[] = [];
  for await (const { kind } of examine(store, [timersOfItems(new SharedTimers(['ring']))], {
    pageEntries: 10,
  }))
    found.push(kind);
  expect(found).toEqual(Array.from({ length: 19 }, () => 'missing'));
  expect(readings).toBeLessThanOrEqual(4);
  await store.close();
});

it('lets other work run while it reads many', async () => {
  const { store } = await openStore();
  await store.transact((tx) => {
    for (let at = 0; at < 1_000; at += 1) tx.schedule(timerOf(bytes(String(at))));
  });
  const timers = new SharedTimers(['ring']);
  const examined = { reader: store, store, pass: {} };
  const found = [...timers.inspect(examined, timerOf(bytes('other')), 'Missing.', { orAny: true })];
  expect(found.filter((one) => one === turn)).toHaveLength(5);
  expect(found.at(-1)).toMatchObject({ kind: 'missing' });
  await store.close();
});
