import { expect, it } from 'vitest';
import { KnownIds } from '../../src/transfer/known-ids.js';

it('knows a hundred thousand ids, each with its type, and no others', () => {
  const ids = new KnownIds();
  for (let number = 0; number < 100_000; number += 1) expect(ids.add(number % 2 === 0 ? 'even' : 'odd', String(number))).toBe(true);
  for (let number = 0; number < 100_000; number += 1) {
    const type = number % 2 === 0 ? 'even' : 'odd';
    expect(ids.has(type, String(number))).toBe(true);
    expect(ids.add(type, String(number))).toBe(false);
    expect(ids.has(type === 'even' ? 'odd' : 'even', String(number))).toBe(false);
  }
  expect(ids.has('even', '100000')).toBe(false);
});
