/** The order of keys: by code point, which is the order of their UTF-8 bytes. */

/** JavaScript compares code units, and so puts `😀` (a surrogate pair) before `～` (U+FF5E). */
export function compareCodePoints(a: string, b: string): number {
  const length = Math.min(a.length, b.length);
  for (let index = 0; index < length; index += 1) {
    const left = a.charCodeAt(index);
    const right = b.charCodeAt(index);
    if (left !== right) return rank(left) - rank(right);
  }
  return a.length - b.length;
}

/** Surrogates encode code points above every other code unit. */
function rank(unit: number): number {
  if (unit < 0xd800) return unit;
  return unit < 0xe000 ? unit + 0x2000 : unit - 0x800;
}

/** The first text after all texts that begin with the prefix, in code-point order; null if there is none. */
export function afterPrefix(prefix: string): string | null {
  const characters = [...prefix];
  for (let last = characters.pop(); last !== undefined; last = characters.pop()) {
    const point = last.codePointAt(0) ?? 0;
    // Lone surrogates are not characters.
    if (point < 0x10ffff)
      return characters.join('') + String.fromCodePoint(point === 0xd7ff ? 0xe000 : point + 1);
  }
  return null;
}
