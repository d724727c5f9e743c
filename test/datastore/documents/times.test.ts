import { expect, test } from 'vitest';
import { laterTime, msOf, normaliseTime, timeOfMs } from '../../../src/datastore/documents/times.js';

test.each([
  ['2026-02-05T10:00:00Z', '2026-02-05T10:00:00Z'],
  ['2026-02-05T10:00:00', '2026-02-05T10:00:00Z'],
  ['2026-02-05 10:00:00', '2026-02-05T10:00:00Z'],
  ['2026-02-05T10:00:00.1', '2026-02-05T10:00:00.100Z'],
  ['2026-02-05T10:00:00.123456', '2026-02-05T10:00:00.123456Z'],
  ['2026-02-05T10:00:00.123456789Z', '2026-02-05T10:00:00.123456Z'],
  ['2026-02-05T10:00:00+00:00', '2026-02-05T10:00:00Z'],
  ['2026-02-05T10:00:00.5+0130', '2026-02-05T08:30:00.500Z'],
  ['1969-12-31T23:59:59.9Z', '1969-12-31T23:59:59.900Z'],
])('%s is read as %s', (text, normal) => {
  expect(normaliseTime(text)).toBe(normal);
  expect(normaliseTime(normal)).toBe(normal);
});

test.each([
  '',
  'yesterday',
  '2026-13-01T00:00:00Z',
  '2026-02-05',
  '10:00',
  '9999-12-31T23:59:59-05:00',
  '9999-12-31T24:00:00Z',
  '0000-01-01T00:00:00+05:00',
])('"%s" is not a time', (text) => {
  expect(() => normaliseTime(text)).toThrow(/not an ISO 8601 time/);
});

test('a time in milliseconds keeps them, and whole seconds have no fraction', () => {
  expect(timeOfMs(1_700_000_000_000)).toBe('2023-11-14T22:13:20Z');
  expect(timeOfMs(1_700_000_000_007)).toBe('2023-11-14T22:13:20.007Z');
  expect(msOf('2023-11-14T22:13:20.007Z')).toBe(1_700_000_000_007);
});

test('the later of two times is found by time, not by text', () => {
  expect(laterTime('2026-02-05T10:00:00Z', '2026-02-05T10:00:00.001Z')).toBe('2026-02-05T10:00:00.001Z');
  expect(laterTime(null, '2026-02-05T10:00:00Z')).toBe('2026-02-05T10:00:00Z');
  expect(laterTime(null, null)).toBeNull();
});
