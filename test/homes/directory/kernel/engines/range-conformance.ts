/** What every engine does with ranges. */
import { describe, expect, it } from 'vitest';
import { prefixRange } from '../../../../../src/homes/directory/kernel/engine.js';
import type { Engine, RangeOptions } from '../../../../../src/homes/directory/kernel/engine.js';
import { keysOf, put } from './entries.js';

/** `engine` is the engine of the running test, which begins empty. */
export function rangeConformance(engine: () => Engine): void {
  describe('ranges', () => {
    const b = Buffer.from('b');
    const d = Buffer.from('d');
    const bounds: [RangeOptions, string][] = [
      [{}, 'abcde'],
      [{ gte: b }, 'bcde'],
      [{ gt: b }, 'cde'],
      [{ lte: d }, 'abcd'],
      [{ lt: d }, 'abc'],
      [{ gte: b, lte: d }, 'bcd'],
      [{ gte: b, lt: d }, 'bc'],
      [{ gt: b, lte: d }, 'cd'],
      [{ gt: b, lt: d }, 'c'],
      [{ gte: Buffer.from('bb'), lte: Buffer.from('cc') }, 'c'],
      [{ gt: Buffer.from('bb'), lt: Buffer.from('cc') }, 'c'],
      [{ gte: b, lte: b }, 'b'],
      [{ gt: b, lte: b }, ''],
      [{ gte: b, lt: b }, ''],
      [{ gte: d, lte: b }, ''],
      [{ gte: Buffer.from('x') }, ''],
      [{ gt: Buffer.from('e') }, ''],
      [{ lt: Buffer.from('a') }, ''],
      [{ lte: Buffer.from('A') }, ''],
      [{ gte: Buffer.alloc(0) }, 'abcde'],
      [{ gt: Buffer.alloc(0), lt: b }, 'a'],
      [{ lte: Buffer.alloc(0) }, ''],
      [{ lt: Buffer.alloc(0) }, ''],
    ];

    it('honours every bound in both directions and with every limit', async () => {
      await engine().commit([...'ecabd'].map((key) => put('documents', key, key.toUpperCase())));
      for (const [options, expected] of bounds) {
        const reversed = [...expected].toReversed().join('');
        expect(keysOf(engine().range('documents', options)).join(''), JSON.stringify(options)).toBe(expected);
        expect(
          keysOf(engine().range('documents', { ...options, reverse: true })).join(''),
          JSON.stringify(options),
        ).toBe(reversed);
        for (const limit of [0, 1, 2, 100, Infinity]) {
          expect(keysOf(engine().range('documents', { ...options, limit })).join('')).toBe(
            expected.slice(0, limit),
          );
          const down = engine().range('documents', { ...options, limit, reverse: true });
          expect(keysOf(down).join('')).toBe(reversed.slice(0, limit));
        }
      }
    });

    it('finds the same entries as sorting them would, for many bounds', async () => {
      const keys = Array.from(
        { length: 1500 },
        (_, index) => `key-${String((index * 7919) % 1500).padStart(4, '0')}`,
      );
      await engine().commit(keys.map((key) => put('documents', key, `value of ${key}`)));
      const sorted = keys.toSorted();
      for (const [from, to] of [
        [0, 1500],
        [3, 4],
        [10, 700],
        [699, 1499],
        [250, 251],
        [511, 1030],
      ] as const) {
        const options = {
          gte: Buffer.from(`key-${String(from).padStart(4, '0')}`),
          lt: Buffer.from(`key-${String(to).padStart(4, '0')}`),
        };
        expect(keysOf(engine().range('documents', options))).toEqual(sorted.slice(from, to));
        expect(keysOf(engine().range('documents', { ...options, reverse: true }))).toEqual(
          sorted.slice(from, to).toReversed(),
        );
      }
      for (const { key, value } of engine().range('documents', {}))
        expect(value.toString()).toBe(`value of ${key.toString()}`);
    });

    it('orders binary keys by unsigned bytes, from 0x00 to 0xff', async () => {
      const keys = [
        [0],
        [0, 0],
        [0, 1],
        [1],
        [0x7f, 0xff],
        [0x80],
        [0xfe, 0xff],
        [0xff],
        [0xff, 0],
        [0xff, 0xff],
      ].map((bytes) => Buffer.from(bytes));
      await engine().commit(keys.toReversed().map((key) => put('documents', key, key)));
      expect([...engine().range('documents', {})].map(({ key }) => key)).toEqual(keys);
      expect([...engine().range('documents', { reverse: true })].map(({ value }) => value)).toEqual(
        keys.toReversed(),
      );
      for (const key of keys) expect(engine().get('documents', key)).toEqual(key);
      const within = (prefix: number[]): number =>
        [...engine().range('documents', prefixRange(Buffer.from(prefix)))].length;
      expect([within([0]), within([0xff]), within([0xfe]), within([0x80])]).toEqual([3, 3, 1, 1]);
      const reverse = [
        ...engine().range('documents', { gte: Buffer.from([0]), lt: Buffer.from([1]), reverse: true }),
      ];
      expect(reverse.map(({ key }) => key)).toEqual([keys[2], keys[1], keys[0]]);
    });

    it('can be left early and read during another scan', async () => {
      await engine().commit([...'abc'].map((key) => put('documents', key, key)));
      const pairs: string[] = [];
      for (const outer of engine().range('documents', {})) {
        for (const inner of engine().range('documents', { reverse: true })) {
          pairs.push(`${outer.key}${inner.key}${engine().get('documents', inner.key)}`);
          if (inner.key.equals(outer.key)) break;
        }
      }
      expect(pairs).toEqual(['acc', 'abb', 'aaa', 'bcc', 'bbb', 'ccc']);
      const iterable = engine().range('documents', {});
      expect(keysOf(iterable)).toEqual(keysOf(iterable));
    });

    it('refuses two lower or two upper bounds', () => {
      expect(() => engine().range('documents', { gte: b, gt: b })).toThrow('two lower or two upper bounds');
      expect(() => engine().range('documents', { lte: b, lt: b })).toThrow('two lower or two upper bounds');
    });
  });
}
