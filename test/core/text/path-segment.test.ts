import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeSegment, documentPath, encodeSegment } from '../../../src/core/text/path-segment.js';

test('every name survives a URL as exactly one segment', () => {
  const names = fc.oneof(
    fc.string({ unit: 'grapheme', minLength: 1 }),
    fc.constantFrom('..', '.', '/', '~', '~~', '%2F', '%2e%2e', '\\', 'a/../b', '?', '#', '😀'),
  );
  fc.assert(
    fc.property(names, (name) => {
      const { pathname } = new URL(`http://host/v1/data/${encodeSegment(name)}`);
      const segments = pathname.split('/').slice(3);
      expect(segments).toHaveLength(1);
      expect(decodeSegment(decodeURIComponent(segments[0] as string))).toBe(name);
    }),
  );
});

test('a name has one spelling in base64url, and bytes that are not text are refused', () => {
  expect(encodeSegment('..')).toBe('~Li4');
  expect(decodeSegment('~Li4')).toBe('..');
  for (const bad of ['~Li4=', '~Li5', '~!', '~a', '~_w', '~/']) expect(decodeSegment(bad)).toBeUndefined();
  expect(documentPath('files:my-repo', 'src/main.py')).toBe('files%3Amy-repo/~c3JjL21haW4ucHk');
});
