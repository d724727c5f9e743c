/** Text of other users on a terminal. */

/** Removes control characters, which must not reach a terminal. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, (character) => (character === '\n' ? '\n  ' : ' '));
}
