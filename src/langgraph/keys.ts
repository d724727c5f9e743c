/** Converts LangGraph's paths of any characters into keys of one namespace, and back. */

// Separators, the escape character, and characters that a key of the data store must not contain.
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const unsafeInPart = /[%/:\u0000-\u001f\u007f-\u009f\p{Cs}]/gu;

/** A part without separators. */
function escapePart(part: string): string {
  return part.replaceAll(
    unsafeInPart,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

function unescapePart(text: string): string {
  return text.replaceAll(/%([0-9a-f]{4})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
}

/**
 * The prefix of the keys of a path and all paths below it. Each part ends with a slash, so that `ab` is not
 * below `a`.
 */
export function pathPrefix(parts: readonly string[]): string {
  return parts.map((part) => `${escapePart(part)}/`).join('');
}

/** The key of an item of the store. */
export function itemKey(namespace: readonly string[], key: string): string {
  return `${pathPrefix(namespace)}:${escapePart(key)}`;
}

/** Parts contain no unescaped colon: the first colon ends the namespace. */
export function parseItemKey(text: string): { namespace: string[]; key: string } {
  const end = text.indexOf(':');
  return {
    namespace: text.slice(0, end).split('/').slice(0, -1).map(unescapePart),
    key: unescapePart(text.slice(end + 1)),
  };
}

/** A text that sorts in reverse: lists are ascending, and the newest checkpoint must come first. */
export function reversed(text: string): string {
  const digits = Array.from(new TextEncoder().encode(text), (byte) =>
    (255 - byte).toString(16).padStart(2, '0'),
  );
  // Above every digit, so that a longer text comes before its prefix.
  return `${digits.join('')}~`;
}
