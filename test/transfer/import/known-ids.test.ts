import { expect, it } from 'vitest';
import { KnownIds } from '../../../src/transfer/import/known-ids.js';

it('knows a hundred thousand ids, each with its type, and no others', () => {
  const ids = new KnownIds();
  // Collected first: an assertion costs far more than a lookup.
  const wrong: number[] = [];
  for (let number = 0; number < 100_000; number += 1)
    if (!ids.add(number % 2 === 0 ? 'even' : 'odd', String(number))) wrong.push(number);
  for (let number = 0; number < 100_000; number += 1) {
    const [type, other] = number % 2 === 0 ? (['even', 'odd'] as const) : (['odd', 'even'] as const);
    if (!ids.has(type, String(number)) || ids.add(type, String(number)) || ids.has(other, String(number)))
      wrong.push(number);
  }
  expect(wrong).toEqual([]);
  expect(ids.has('even', '100000')).toBe(false);
});
