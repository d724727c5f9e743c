/** Counts the values in the bytes of JSON before they are parsed. */

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const colon = 0x3a;
const openBrace = 0x7b;
const openBracket = 0x5b;
/**
 * What a list, an object or a member counts for: they take four to ten times as long to parse and check as a
 * number.
 */
const namedValues = 4;

/**
 * Counts commas outside of strings as values. Brackets and colons count for more, because objects take longer
 * to make.
 */
export function hasMoreValuesThan(bytes: Buffer, valuesMax: number): boolean {
  if (bytes.length * namedValues <= valuesMax) return false;
  let [found, inString] = [0, false];
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] as number;
    if (inString) {
      if (byte === backslash) at += 1;
      else if (byte === quote) inString = false;
    } else if (byte === quote) inString = true;
    else {
      if (byte === comma) found += 1;
      else if (byte === openBrace || byte === openBracket || byte === colon) found += namedValues;
      if (found > valuesMax) return true;
    }
  }
  return false;
}
