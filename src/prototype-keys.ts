/** `__proto__` as a key would change what later code believes an object has. */

/** Whether JSON text holds the name at all, also spelled with escapes: a quick look before the long one. */
function mayHold(text: string): boolean {
  return text.includes('__proto__') || text.includes('\\u005f') || text.includes('\\u005F');
}

/** Whether a value that was parsed from the text has such a key anywhere. */
export function hasPrototypeKey(text: string, value: unknown): boolean {
  return mayHold(text) && isIn(value);
}

function isIn(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return Object.hasOwn(value, '__proto__') || Object.values(value).some(isIn);
}
