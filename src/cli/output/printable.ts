/** Words of others on a terminal. */

/** Control characters in what others wrote must not reach a terminal. */
export function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, (character) => (character === '\n' ? '\n  ' : ' '));
}
