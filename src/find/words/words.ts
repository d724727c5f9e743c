/**
 * The words of a text, with their places in it: the same rules for everything that is stored and for queries.
 *
 * A run of letters, marks and digits is a word. Words joined by `_`, `.`, `/`, `\`, `:`, `@` or `-` without a
 * space form a compound. `getUserById`, `user_id`, `src/app.ts` and `E404` are found whole and in parts.
 * Scripts that are written without spaces give overlapping pairs of characters.
 */
import { characterClass, classOfPoint, classOfUnit, foldedUnit } from './characters.js';
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
   * `word`: an ordinary word, which may be stemmed. `code`: a part of a code word. `whole`: a compound or
   * code word as a whole. `pair`: two characters of a script without spaces, or the last character of such a
   * run.
   */
  readonly kind: 'word' | 'code' | 'whole' | 'pair';
}

const compound = /[\p{L}\p{M}\p{Nd}]+(?:[._/\\:@-]{1,3}[\p{L}\p{M}\p{Nd}]+)*(?:\+\+|#)?/uy;
const joint = /[._/\\:@-]+/g;
const codeJoint = /[._/\\:@+#]/;
const identifierEnd = /[./\\:@+#-]+/g;
const hump = /[\p{Ll}\p{Nd}]\p{Lu}|\p{Lu}\p{Lu}\p{Ll}/u;
const letterBesideDigit = /\p{L}\p{M}*\p{Nd}|\p{Nd}\p{L}/u;
/** The parts of `getUserByID`, `HTTPServer` and `E404`. */
const humps = /\p{Lu}+(?!\p{Ll})\p{M}*|\p{Lu}?[\p{Ll}\p{Lo}\p{Lm}\p{Lt}\p{M}]+|\p{Nd}+|[\p{L}\p{M}]+/gu;
/** Accents are used with several scripts: the dot below of Vietnamese with katakana too. They belong to no script here. */
const spaceless =
  /(?:(?!\p{sc=Inherited})[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}\p{scx=Thai}\p{scx=Lao}\p{scx=Khmer}\p{scx=Myanmar}]|[\u3099\u309a])+/gu;
const hasSpaceless = new RegExp(spaceless.source, 'u');
/**
 * One character of such a script, also in decomposed form (NFD), as macOS writes the names of files: a Hangul syllable
 * as its letters, a kana with its voiced mark behind it.
 */
const wholeCharacter = /.[\u3099\u309a\u1160-\u11ff\uff9e\uff9f]*/gsu;

/**
 * Called with the parts of a token: an object for each of the 200 tokens of a note would cost more than
 * finding them.
 */
export type OnToken = (
  word: string,
  position: number,
  kind: Token['kind'],
  start: number,
  end: number,
) => void;

/**
 * As `OnToken`, for letters that fold each for itself, or digits: the word is the folded text from `start` to `end`. It is
 * a `pair` if it is not a `word`. If this returns false, `OnToken` is called.
 */
export type OnRun = (text: string, start: number, end: number, position: number, isWord: boolean) => boolean;

/** Every token of a text, in order. */
export function eachToken(text: string, onToken: OnToken, onRun?: OnRun): void {
  const words = new Words(onToken, onRun);
  for (let at = 0; at < text.length;) {
    const start = at;
    let all = 0;
    // The run of letters, marks and digits from here, with the classes of its characters.
    for (; at < text.length; at += 1) {
      const unit = text.charCodeAt(at);
      let found = classOfUnit(unit);
      if (unit >= 0xd800 && unit <= 0xdbff) {
        found = classOfPoint(text.codePointAt(at) as number);
        if (found !== other) at += 1;
      }
      if (found === other) break;
      all |= all !== 0 && (found & upper) !== 0 ? found | upperInside : found;
    }
    if (at === start) {
      at += 1;
      continue;
    }
    if (mayJoin(text, at)) {
      compound.lastIndex = start;
      const joined = compound.exec(text)?.[0] ?? '';
      at = start + joined.length;
      words.compound(joined, start);
    } else if (isSimple(all)) words.simple(text, start, at, all);
    else if (all === characterClass.spaceless) words.pairs(text, start, at);
    else words.compound(text.slice(start, at), start);
  }
}

export function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  eachToken(text, (word, position, kind, start, end) => tokens.push({ word, position, start, end, kind }));
  return tokens;
}

const { other, lower, upper, digit, folds } = characterClass;
/** A capital behind the first character. */
const upperInside = 128;

/** Whether the run that ends here may continue as a compound: `a.b` does, the last word of a sentence does not. */
function mayJoin(text: string, end: number): boolean {
  const unit = text.charCodeAt(end);
  if (unit === hashSign) return true;
  const next = text.charCodeAt(end + 1);
  if (unit === plusSign) return next === plusSign;
  return (
    isJoint(unit) &&
    (isJoint(next) || isSurrogate(next) || (end + 1 < text.length && classOfUnit(next) !== other))
  );
}

const [hashSign, plusSign] = [0x23, 0x2b];

function isJoint(unit: number): boolean {
  switch (unit) {
    case 0x2d: // -
    case 0x2e: // .
    case 0x2f: // /
    case 0x3a: // :
    case 0x40: // @
    case 0x5c: // backslash
    case 0x5f: // _
      return true;
    default:
      return false;
  }
}

function isSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdfff;
}

/** One part, nothing to look into: `word`, `Word`, `WORD` or `1234`. Nearly every word of a text. */
function isSimple(all: number): boolean {
  if (all === digit) return true;
  if ((all & ~(lower | upper | folds | upperInside)) !== 0) return false;
  return (all & upperInside) === 0 || (all & lower) === 0;
}

/** Whether a run belongs to a script that is written without spaces. */
export function isSpaceless(text: string): boolean {
  return hasSpaceless.test(text);
}

class Words {
  readonly #onToken: OnToken;
  readonly #onRun: OnRun | undefined;
  #position = 0;

  constructor(onToken: OnToken, onRun: OnRun | undefined) {
    this.#onToken = onToken;
    this.#onRun = onRun;
  }

  /** A run of letters that fold each for itself, or of digits. `all` has their classes. */
  simple(text: string, start: number, end: number, all: number): void {
    if (end - start <= wordCharactersMax && this.#onRun?.(text, start, end, this.#position, true) !== true) {
      const run = text.slice(start, end);
      this.#emit((all & folds) === 0 ? run : foldedRun(run), start, end, 'word', this.#position);
    }
    this.#position += 1;
  }

  compound(text: string, start: number): void {
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
      parts += this.#foldedPairs(match[0], start + match.index);
      at = match.index + match[0].length;
    }
    if (at < text.length) parts += this.#part(text.slice(at), start + at, false);
    return parts;
  }

  /** The pairs of a run of characters that fold to themselves. The last character stands alone. */
  pairs(text: string, start: number, end: number): void {
    for (let at = start; at < end; at += 1) {
      const to = Math.min(at + 2, end);
      if (this.#onRun?.(text, at, to, this.#position, false) !== true)
        this.#emit(text.slice(at, to), at, to, 'pair', this.#position);
      this.#position += 1;
    }
  }

  /** Overlapping pairs, and the last character alone, so that every character begins a token. */
  #foldedPairs(run: string, start: number): number {
    const characters = run.match(wholeCharacter) ?? [];
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
    if (word.length <= wordCharactersMax) this.#onToken(word, position, kind, start, end);
  }
}

function foldedRun(run: string): string {
  let folded = '';
  for (let at = 0; at < run.length; at += 1) folded += foldedUnit(run.charCodeAt(at));
  return folded;
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
