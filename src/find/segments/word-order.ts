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
