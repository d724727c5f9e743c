/** What may be stored, and how a refusal names what it found. */
import { describe, expect, it } from 'vitest';
import { checkMetadata, valueJson } from '../../../src/datastore/documents/value.js';
import { limitsWith } from '../../../src/core/settings/limits.js';

const limits = limitsWith();
const deep = (levels: number): unknown => (levels === 0 ? 1 : [deep(levels - 1)]);

describe('a value', () => {
  it('is written as JSON writes it', () => {
    const value = {
      text: 'a"\\ud800 is only text',
      list: [1, 'x', null, true, { '\\udfff': 2 }],
      pair: '😀',
    };
    expect(valueJson(value, limits)).toBe(JSON.stringify(value));
    expect(JSON.parse(valueJson(value, limits))).toEqual(value);
  });

  it.each([
    ['a lone surrogate', { a: ['x', '\ud800'] }, 'value.a[1] contains a lone surrogate'],
    [
      'a lone surrogate beside text that looks like one',
      ['\\ud800', '\udc00'],
      'value[1] contains a lone surrogate',
    ],
    ['a lone surrogate in a name', { '\ud800': 1 }, 'has a lone surrogate in its name'],
    [
      'a name that no door takes',
      JSON.parse('{"a":[{"__proto__":1}]}'),
      'value.a[0].__proto__ has a reserved name',
    ],
    ['a number that is none', { a: { b: NaN } }, 'value.a.b is NaN'],
    ['undefined in a list', [1, undefined], 'value[1] is undefined'],
    ['a hole in a list', [1, , 2], 'value[1] is undefined'], // oxlint-disable-line no-sparse-arrays
    ['a big integer', { a: 1n }, 'value.a is a bigint'],
    ['a date', { at: new Date(0) }, 'value.at is an instance of Date'],
    ['a map', [new Map()], 'value[0] is an instance of Map'],
    ['bytes', { a: new Uint8Array(2) }, 'value.a is binary'],
    ['a symbol as a name', { a: { [Symbol('s')]: 1 } }, 'value.a has a symbol as a name'],
    ['an object that says its own JSON', { a: { toJSON: () => 1 } }, 'value.a.toJSON is a function'],
    [
      'a value nested too deeply',
      deep(limits.valueDepthMax + 1),
      'exceeds 200 levels of nesting (valueDepthMax)',
    ],
  ])('refuses %s and says where', (_what, value, sentence) => {
    expect(() => valueJson(value, limits)).toThrow(sentence);
  });

  it('refuses a cycle of any length', () => {
    const circle: Record<string, unknown> = {};
    for (const name of ['a', 'b', 'c']) circle[name] = circle;
    expect(() => valueJson(circle, limits)).toThrow('value.a is a circular reference');
  });

  it('is measured in bytes, not in characters', () => {
    expect(valueJson('é'.repeat(10), limitsWith({ valueBytesMax: 22 }))).toHaveLength(12);
    expect(() => valueJson('é'.repeat(10), limitsWith({ valueBytesMax: 21 }))).toThrow(
      'has 22 bytes of JSON, which exceeds 21',
    );
  });

  it('may be as deep as the limit', () => {
    expect(valueJson(deep(limits.valueDepthMax), limits)).toHaveLength(2 * limits.valueDepthMax + 1);
  });
});

describe('metadata', () => {
  it('is an object of JSON', () => {
    expect(() => checkMetadata({ a: { b: '\ud800' } }, limits)).toThrow(
      'metadata.a.b contains a lone surrogate',
    );
    expect(() => checkMetadata([], limits)).toThrow('metadata is not an object');
  });
});
