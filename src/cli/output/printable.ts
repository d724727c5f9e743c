/**
 * Texts as a terminal may get them. A character that controls the terminal, reverses the direction of writing or ends a
 * line is shown as its escape: a name or a message can be anybody's.
 */
const unprintable = /[\p{Cc}\p{Bidi_Control}\p{Zl}\p{Zp}]/gu;

/** For one line: `\x1b[2J`, `\u202e`. */
export function printable(text: string): string {
  return text.replaceAll(unprintable, escapeOf);
}

/** Keeps the lines of the text, and its tabs. */
export function printableLines(text: string): string {
  return text.replaceAll(unprintable, (character) =>
    character === '\n' || character === '\t' ? character : escapeOf(character),
  );
}

/** JSON of the same value. `JSON.stringify` escapes only the first 32 of these characters. */
export function printableJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replaceAll(unprintable, (character) =>
    character === '\n' ? character : `\\u${hexOf(character, 4)}`,
  );
}

function escapeOf(character: string): string {
  return character <= '\u00FF' ? `\\x${hexOf(character, 2)}` : `\\u${hexOf(character, 4)}`;
}

function hexOf(character: string, digits: number): string {
  return character.charCodeAt(0).toString(16).padStart(digits, '0');
}
