import { expect, it } from 'vitest';
import { Places } from '../../../src/core/waiting/places.js';
import { until } from '../../until.js';

/** Work that ends when it is told to. */
function heldWork(places: Places) {
  const begun: { name: string; end: () => void }[] = [];
  const start = (name: string): Promise<void> =>
    places.run(() => new Promise<void>((end) => begun.push({ name, end })), name.slice(0, 1));
  return { begun, start };
}

it('runs as much at a time as there are places, and the names that wait take turns', async () => {
  const places = new Places(2);
  const { begun, start } = heldWork(places);
  const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map(start);
  await until(() => begun.length === 2);
  expect([places.busy, places.waiting]).toEqual([2, 5]);
  for (let ended = 0; ended < all.length; ended += 1) {
    begun[ended]?.end();
    await all[['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].indexOf(begun[ended]?.name ?? '')];
    await until(() => begun.length === Math.min(all.length, ended + 3));
  }
  expect(begun.map(({ name }) => name)).toEqual(['a1', 'a2', 'a3', 'b1', 'c1', 'a4', 'b2']);
  expect([places.busy, places.waiting]).toEqual([0, 0]);
});

it('gives its place on when the work fails', async () => {
  const places = new Places(1);
  const broken = places.run(() => Promise.reject(new Error('broken')));
  const whole = places.run(() => Promise.resolve('whole'));
  await expect(broken).rejects.toThrow('broken');
  await expect(whole).resolves.toBe('whole');
});
