import type { TermTable } from '../words/term-table.js';

/** The order of words in blocks: by their UTF-8 bytes, as LMDB and PostgreSQL's `bytea` order them. */
export function compareWords(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index += 1) {
    const [x, y] = [a.charCodeAt(index), b.charCodeAt(index)];
    // UTF-16 puts surrogate pairs before U+E000 to U+FFFF; UTF-8 puts them after.
    if (x !== y) return isSurrogate(x) === isSurrogate(y) ? x - y : isSurrogate(x) ? 1 : -1;
  }
  return a.length - b.length;
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

/** Terms with a number below this can be sorted with some of their bytes in one number. */
const termsMax = 2 ** 21;
/** Bytes that are compared at once. */
const bytesPerKey = 4;
/** So few terms that begin alike are compared one by one. */
const comparedMax = 32;

/** The numbers of the terms in the order of their bytes. It lets other work run. */
export function* inTermOrder(terms: TermTable): Generator<void, Int32Array> {
  const { count } = terms;
  if (count > termsMax) throw new RangeError(`A segment has ${count} terms. The most are ${termsMax}.`);
  const order = new Int32Array(count);
  for (let term = 0; term < count; term += 1) order[term] = term;
  yield* sortFrom(terms, order, 0);
  return order;
}

/**
 * Sorts terms that have their first bytes in common. The next bytes and the place in the list make one number, which
 * sorts without a function.
 */
function* sortFrom(terms: TermTable, order: Int32Array, shared: number): Generator<void, void> {
  const { bytes, starts } = terms;
  const before = order.slice();
  const keys = Float64Array.from(before, (term, index) => {
    const end = starts[term + 1] as number;
    let next = 0;
    for (let step = 0, at = (starts[term] as number) + shared; step < bytesPerKey; step += 1, at += 1)
      next = next * 256 + (at < end ? (bytes[at] as number) : 0);
    return next * termsMax + index;
  });
  yield;
  keys.sort();
  for (const [index, key] of keys.entries()) order[index] = before[key % termsMax] as number;
  yield;
  for (let from = 0; from < keys.length;) {
    const next = Math.floor((keys[from] as number) / termsMax);
    let to = from + 1;
    while (to < keys.length && Math.floor((keys[to] as number) / termsMax) === next) to += 1;
    const alike = order.subarray(from, to);
    if (alike.length > comparedMax) yield* sortFrom(terms, alike, shared + bytesPerKey);
    else if (alike.length > 1) {
      alike.sort((a, b) => terms.compare(a, b));
      yield;
    }
    from = to;
  }
}
