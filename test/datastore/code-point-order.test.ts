import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { compareCodePoints } from '../../src/datastore/code-point-order.js';

test('the order is that of the UTF-8 bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (a, b) => {
      expect(Math.sign(compareCodePoints(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
  expect(['😀', '～'].toSorted(compareCodePoints)).toEqual(['～', '😀']);
});
