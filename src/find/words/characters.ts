/**
 * What each character is to the words of a text, in one table. Nearly all words are made of characters whose
 * folded form does not depend on their neighbours: they are read with one look-up for each character.
 * Expressions do the rest.
 */
import { fold } from './fold.js';

/** The classes are bits, so that a whole word is described by all bits of its characters. */
export const characterClass = {
  /** Not a part of a word. */
  other: 1,
  /** A part of a word that needs the expressions: marks, rare letters, digits of other scripts. */
  complex: 2,
  /** A lower-case letter, or one of a script without cases. */
  lower: 4,
  upper: 8,
  /** 0 to 9. */
  digit: 16,
  /** A letter of a script that is written without spaces. It folds to itself. */
  spaceless: 32,
  /** Beside the others: the folded form is another character, or several. */
  folds: 64,
} as const;

const { other, complex, lower, upper, digit, spaceless, folds } = characterClass;

const partOfWord = /^[\p{L}\p{M}\p{Nd}]$/u;
const lowerLetter = /^[\p{Ll}\p{Lo}]$/u;
const upperLetter = /^\p{Lu}$/u;
/** Kana, Han and Hangul without forms that fold. */
const plainSpaceless = /^[ぁ-ゖァ-ヺー一-鿿가-힣]$/;
/**
 * Latin, Greek, Cyrillic, Hebrew and Arabic letters: no two of them compose, none changes beside another one, and none
 * folds to nothing.
 */
const independent = /^[A-Za-zÀ-ɏΆ-ϿЀ-ԯא-תء-غف-ي]$/;

/** For every UTF-16 unit; 0: not looked at yet. */
const classes = new Uint8Array(0x1_0000);
const folded: string[] = [];
/** The folded form of a letter or digit, if it is one UTF-16 unit; 0: it is several, or not looked at yet. */
const foldedUnits = new Uint16Array(0x1_0000);

export function classOfUnit(unit: number): number {
  return classes[unit] || classify(unit);
}

/** The folded form of a letter whose class is `lower` or `upper`. */
export function foldedUnit(unit: number): string {
  return folded[unit] ?? String.fromCharCode(unit);
}

/** As `foldedUnit`, as a number; 0 if the form has several units. For a unit whose class was looked up. */
export function foldedCode(unit: number): number {
  return foldedUnits[unit] as number;
}

/** Of a character beyond U+FFFF. */
export function classOfPoint(point: number): number {
  return partOfWord.test(String.fromCodePoint(point)) ? complex : other;
}

function classify(unit: number): number {
  const character = String.fromCharCode(unit);
  const found = classOf(character);
  if ((found & folds) !== 0) folded[unit] = fold(character);
  if ((found & (other | complex)) === 0) {
    const form = folded[unit] ?? character;
    if (form.length === 1) foldedUnits[unit] = form.charCodeAt(0);
  }
  classes[unit] = found;
  return found;
}

function classOf(character: string): number {
  if (!partOfWord.test(character)) return other;
  if (character >= '0' && character <= '9') return digit;
  if (plainSpaceless.test(character)) return spaceless;
  if (!independent.test(character)) return complex;
  const forms = fold(character) === character ? 0 : folds;
  if (upperLetter.test(character)) return upper | forms;
  return lowerLetter.test(character) ? lower | forms : complex;
}
