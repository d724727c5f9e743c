/**
 * Finds the key `__proto__`, which would change the prototype of an object, and which schemas drop silently.
 */

/**
 * Whether a value that was parsed from the text has a key `__proto__` at any depth. Most texts need no walk
 * through the value.
 */
export function hasPrototypeKey(text: string, value: unknown): boolean {
  // Any letter of the key can be written as an escape, and each of those escapes begins with \u00.
  return (text.includes('__proto__') || text.includes('\\u00')) && isIn(value);
}

/** Uses a list instead of recursion: lines of a file can be nested a million levels deep. */
function isIn(value: unknown): boolean {
  const waiting = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (typeof next !== 'object' || next === null) continue;
    if (Object.hasOwn(next, '__proto__')) return true;
    for (const member of Object.values(next)) waiting.push(member);
  }
  return false;
}
