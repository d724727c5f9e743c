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

/** Words that are sorted at once: about a millisecond. */
const sortedAtOnce = 2_048;

/** The words in their order. It lets other work run: one segment may have a hundred thousand words. */
export function* inWordOrder(words: readonly string[]): Generator<void, string[]> {
  let runs: string[][] = [];
  for (let at = 0; at < words.length; at += sortedAtOnce) {
    runs.push(words.slice(at, at + sortedAtOnce).toSorted(compareWords));
    yield;
  }
  while (runs.length > 1) {
    const merged: string[][] = [];
    for (let at = 0; at < runs.length; at += 2)
      merged.push(yield* joined(runs[at] ?? [], runs[at + 1] ?? []));
    runs = merged;
  }
  return runs[0] ?? [];
}

function* joined(a: readonly string[], b: readonly string[]): Generator<void, string[]> {
  const all: string[] = [];
  let [left, right] = [0, 0];
  while (left < a.length || right < b.length) {
    const [x, y] = [a[left], b[right]];
    if (y === undefined || (x !== undefined && compareWords(x, y) < 0)) {
      all.push(x as string);
      left += 1;
    } else {
      all.push(y);
      right += 1;
    }
    if (all.length % sortedAtOnce === 0) yield;
  }
  return all;
}
