import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { afterPrefix, compareCodePoints } from '../../../src/datastore/documents/code-point-order.js';

test('the order is that of the UTF-8 bytes', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'grapheme' }), (a, b) => {
      expect(Math.sign(compareCodePoints(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
  );
  expect(['😀', '～'].toSorted(compareCodePoints)).toEqual(['～', '😀']);
});

test('the end of a prefix sorts after every text with that prefix and before all later texts', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'grapheme', minLength: 1 }),
      fc.string({ unit: 'grapheme' }),
      (prefix, text) => {
        const end = afterPrefix(prefix);
        const isInside =
          compareCodePoints(text, prefix) >= 0 && (end === null || compareCodePoints(text, end) < 0);
        expect(isInside).toBe(text.startsWith(prefix));
        if (end !== null) expect(compareCodePoints(prefix + text, end)).toBeLessThan(0);
      },
    ),
  );
  expect(afterPrefix('a/')).toBe('a0');
  expect(afterPrefix('a\u{10ffff}\u{10ffff}')).toBe('b');
  expect(afterPrefix('\ud7ff')).toBe('\ue000');
  expect(afterPrefix('\u{10ffff}')).toBeNull();
  expect(afterPrefix('')).toBeNull();
});
