/** LangGraph's paths as keys of one namespace, whatever characters they hold, and back. */

// Separators, the escape itself, and what a key of the data store may not hold.
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const unsafeInPart = /[%/:\u0000-\u001f\u007f-\u009f\p{Cs}]/gu;

/** A part that cannot run into its neighbours. */
export function escapePart(part: string): string {
  return part.replaceAll(
    unsafeInPart,
    (character) => `%${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}

export function unescapePart(text: string): string {
  return text.replaceAll(/%([0-9a-f]{4})/g, (_, digits: string) =>
    String.fromCharCode(Number.parseInt(digits, 16)),
  );
}

/** What the keys of a path and of all paths below it begin with: each part ends in a slash, so that `ab` is not below `a`. */
export function pathPrefix(parts: readonly string[]): string {
  return parts.map((part) => `${escapePart(part)}/`).join('');
}

/** The key of an item of the store. */
export function itemKey(namespace: readonly string[], key: string): string {
  return `${pathPrefix(namespace)}:${escapePart(key)}`;
}

/** Parts hold no bare colon: the first one ends the namespace. */
export function parseItemKey(text: string): { namespace: string[]; key: string } {
  const end = text.indexOf(':');
  return {
    namespace: text.slice(0, end).split('/').slice(0, -1).map(unescapePart),
    key: unescapePart(text.slice(end + 1)),
  };
}

/** A text whose order is the reverse: lists go upwards, and of checkpoints the newest is wanted first. */
export function reversed(text: string): string {
  const digits = Array.from(new TextEncoder().encode(text), (byte) =>
    (255 - byte).toString(16).padStart(2, '0'),
  );
  // Above every digit, so that a longer text comes before its own beginning.
  return `${digits.join('')}~`;
}
