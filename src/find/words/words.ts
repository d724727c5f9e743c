/**
 * The words of a text, with their places in it: the same rules for everything that is stored and for queries.
 *
 * A run of letters, marks and digits is a word. Words joined by `_`, `.`, `/`, `\`, `:`, `@` or `-` without a space
 * form a compound. `getUserById`, `user_id`, `src/app.ts` and `E404` are found whole and in parts. Scripts that
 * are written without spaces give overlapping pairs of characters.
 */
import { fold } from './fold.js';

/** Longer runs are not words: they are hashes, encoded bytes or generated text. */
const wordCharactersMax = 100;

/** One token at a place of a text. */
export interface Token {
  /** The folded word. */
  readonly word: string;
  /** The number of the word in its text. A compound has the number of its first part. */
  readonly position: number;
  /** Where it stands, in UTF-16 units. */
  readonly start: number;
  readonly end: number;
  /**
   * `word`: an ordinary word, which may be stemmed. `code`: a part of a code word. `whole`: a compound or code word as a
   * whole. `pair`: two characters of a script without spaces, or the last character of such a run.
   */
  readonly kind: 'word' | 'code' | 'whole' | 'pair';
}

const plainCompound = /[A-Za-z0-9]+(?:[._/\\:@-]{1,3}[A-Za-z0-9]+)*(?:\+\+|#)?/g;
const anyCompound = /[\p{L}\p{M}\p{Nd}]+(?:[._/\\:@-]{1,3}[\p{L}\p{M}\p{Nd}]+)*(?:\+\+|#)?/gu;
// oxlint-disable-next-line no-control-regex -- all of ASCII
const plainText = /^[\0-\x7f]*$/;
const joint = /[._/\\:@-]+/g;
const codeJoint = /[._/\\:@+#]/;
const identifierEnd = /[./\\:@+#-]+/g;
const hump = /[\p{Ll}\p{Nd}]\p{Lu}|\p{Lu}\p{Lu}\p{Ll}/u;
const letterBesideDigit = /\p{L}\p{M}*\p{Nd}|\p{Nd}\p{L}/u;
/** The parts of `getUserByID`, `HTTPServer` and `E404`. */
const humps = /\p{Lu}+(?!\p{Ll})\p{M}*|\p{Lu}?[\p{Ll}\p{Lo}\p{Lm}\p{Lt}\p{M}]+|\p{Nd}+|[\p{L}\p{M}]+/gu;
const spaceless =
  /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]+/gu;
const hasSpaceless = new RegExp(spaceless.source, 'u');

/** Every token of a text, in order. Calls back instead of building a list: a set of 1 KB has about 200 of them. */
export function eachToken(text: string, onToken: (token: Token) => void): void {
  const words = new Words(onToken);
  const compound = plainText.test(text) ? plainCompound : anyCompound;
  compound.lastIndex = 0;
  for (let match = compound.exec(text); match !== null; match = compound.exec(text))
    words.compound(match[0], match.index);
}

export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  eachToken(text, (token) => tokens.push(token));
  return tokens;
}

/** Whether a run belongs to a script that is written without spaces. */
export function isSpaceless(text: string): boolean {
  return hasSpaceless.test(text);
}

const simpleWord = /^(?:[a-z]+|[A-Z][a-z]*|[A-Z]+|[0-9]+)$/;

class Words {
  readonly #onToken: (token: Token) => void;
  #position = 0;

  constructor(onToken: (token: Token) => void) {
    this.#onToken = onToken;
  }

  compound(text: string, start: number): void {
    // Nearly every word of a text: one part, nothing to look into.
    if (simpleWord.test(text)) {
      if (text.length <= wordCharactersMax)
        this.#emit(text.toLowerCase(), start, start + text.length, 'word', this.#position);
      this.#position += 1;
      return;
    }
    const first = this.#position;
    const isCode = codeJoint.test(text) || hump.test(text) || letterBesideDigit.test(text);
    let parts = 0;
    let longest = '';
    let at = 0;
    // The identifiers between dots, slashes, colons and hyphens, then the words between underscores.
    for (const [identifier, from] of pieces(text, identifierEnd)) {
      const before = this.#position;
      let inner = 0;
      for (const [word, offset] of pieces(identifier, joint))
        inner += this.#word(word, start + from + offset, isCode);
      if (inner > 1 && identifier.length <= wordCharactersMax && !isOnlySpaceless(identifier)) {
        const name = fold(identifier);
        this.#emit(name, start + from, start + from + identifier.length, 'whole', before);
        longest = name;
      }
      parts += inner;
      at = from + identifier.length;
    }
    const whole = fold(text);
    if (
      (parts > 1 || at < text.length) &&
      text.length <= wordCharactersMax &&
      whole !== longest &&
      !isOnlySpaceless(text)
    )
      this.#emit(whole, start, start + text.length, 'whole', first);
  }

  /** A run without joints: its humps, or its pairs. Returns the number of parts. */
  #word(text: string, start: number, isCode: boolean): number {
    if (hasSpaceless.test(text)) return this.#mixed(text, start);
    if (!isCode || !(hump.test(text) || letterBesideDigit.test(text))) return this.#part(text, start, isCode);
    let parts = 0;
    for (const match of text.matchAll(humps)) parts += this.#part(match[0], start + match.index, true);
    return parts;
  }

  #part(text: string, start: number, isCode: boolean): number {
    const word = text.length > wordCharactersMax ? '' : fold(text);
    if (word !== '') this.#emit(word, start, start + text.length, isCode ? 'code' : 'word', this.#position);
    this.#position += 1;
    return 1;
  }

  /** A run with characters of scripts without spaces, and perhaps others between them. */
  #mixed(text: string, start: number): number {
    let at = 0;
    let parts = 0;
    for (const match of text.matchAll(spaceless)) {
      if (match.index > at) parts += this.#part(text.slice(at, match.index), start + at, false);
      parts += this.#pairs(match[0], start + match.index);
      at = match.index + match[0].length;
    }
    if (at < text.length) parts += this.#part(text.slice(at), start + at, false);
    return parts;
  }

  /** Overlapping pairs, and the last character alone, so that every character begins a token. */
  #pairs(run: string, start: number): number {
    const characters = [...run];
    let at = start;
    for (const [index, character] of characters.entries()) {
      const next = characters[index + 1] ?? '';
      const word = fold(character + next);
      if (word !== '') this.#emit(word, at, at + character.length + next.length, 'pair', this.#position);
      this.#position += 1;
      at += character.length;
    }
    return characters.length;
  }

  #emit(word: string, start: number, end: number, kind: Token['kind'], position: number): void {
    // Folding makes some characters many: U+FDFA becomes eighteen.
    if (word.length <= wordCharactersMax) this.#onToken({ word, position, start, end, kind });
  }
}

/** The non-empty pieces between separators, with their places. */
function* pieces(text: string, separators: RegExp): Generator<[piece: string, at: number]> {
  let at = 0;
  for (const match of text.matchAll(separators)) {
    if (match.index > at) yield [text.slice(at, match.index), at];
    at = match.index + match[0].length;
  }
  if (at < text.length) yield [text.slice(at), at];
}

function isOnlySpaceless(text: string): boolean {
  return text.replace(spaceless, '') === '';
}
