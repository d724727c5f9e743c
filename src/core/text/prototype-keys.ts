/** `__proto__` as a key would change what later code believes an object has; schemas drop it without a word. */

/** Whether a value that was parsed from the text has a key `__proto__` anywhere. Most texts do not have to be walked. */
export function hasPrototypeKey(text: string, value: unknown): boolean {
  // Any of its letters can be written as an escape, and each of those begins with \u00.
  return (text.includes('__proto__') || text.includes('\\u00')) && isIn(value);
}

/** With a list of its own instead of the stack: lines of a file can be nested a million levels deep. */
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
