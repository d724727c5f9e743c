/** The characters that no name, id or header may contain. */

// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const controlCharacter = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * `a control character (U+0007)` or `a lone surrogate (U+D800)` for the first invalid character; undefined if
 * there is none.
 */
export function invalidCharacterIn(text: string): string | undefined {
  const control = controlCharacter.exec(text)?.[0];
  if (control !== undefined) return `a control character (${codePoint(control)})`;
  if (text.isWellFormed()) return undefined;
  // Encoding replaces a lone surrogate with U+FFFD, so two different names would become the same.
  return loneSurrogateIn(text);
}

/** As `invalidCharacterIn`, for text that may have several lines. PostgreSQL stores no U+0000. */
export function unstorableCharacterIn(text: string): string | undefined {
  return text.includes('\0') ? 'a control character (U+0000)' : loneSurrogateIn(text);
}

function loneSurrogateIn(text: string): string | undefined {
  const surrogate = /\p{Cs}/u.exec(text)?.[0];
  return surrogate === undefined ? undefined : `a lone surrogate (${codePoint(surrogate)})`;
}

function codePoint(character: string): string {
  return `U+${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0')}`;
}
