/** The words of a text, by the same rules for messages and for queries. */
import { userKey } from '../../identity/user-key.js';
import type { Room } from '../model.js';

const wordRun = /[\p{L}\p{M}\p{Nd}_]+/gu;
/** Scripts written without spaces; a run of them is indexed as pairs of neighbours. */
const cjkRun = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}]+/gu;
const cjk = /[\p{scx=Han}\p{scx=Hiragana}\p{scx=Katakana}\p{scx=Hangul}\p{scx=Bopomofo}]/u;
const plainWord = /^[a-z0-9_]+$/;
/** ASCII, which is most text, needs no check of scripts and normal forms. */
const plainText = /^[\0-\x7f]*$/;
const plainRun = /[a-z0-9_]+/g;

const wordCharactersMin = 3;
const wordCharactersMax = 100;
const queryTermsMax = 5;

/** Every word by which a message can be found, each once. */
export function indexWords(text: string): string[] {
  const words = new Set<string>();
  for (const term of termsOf(text)) for (const word of term) words.add(word);
  return [...words];
}

/** Whether a text has all of these words of a query. */
export function hasWords(text: string, words: readonly string[]): boolean {
  if (plainText.test(text)) {
    const folded = text.toLowerCase();
    return words.every((word) => hasRun(folded, word));
  }
  const own = new Set(indexWords(text));
  return words.every((word) => own.has(word));
}

/** Whether a word stands in a plain text with no character of a word before or after it. */
function hasRun(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1))
    if (!isRunAt(text, at - 1) && !isRunAt(text, at + word.length)) return true;
  return false;
}

function isRunAt(text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  return (code >= 97 && code <= 122) || (code >= 48 && code <= 57) || code === 95;
}

/**
 * The words under which a message of a room is found. A word of a user's room begins with the user, so only a
 * search for that user reads it. Messages of rooms with a key are not found at all.
 */
export function roomWords({ owner, isPrivate }: Pick<Room, 'owner' | 'isPrivate'>, text: string): string[] {
  if (isPrivate) return [];
  return owner === null ? indexWords(text) : ownWords(owner, indexWords(text));
}

/** Words of a query, for the rooms of a user. */
export function ownWords(owner: string, words: readonly string[]): string[] {
  const prefix = userKey(owner).toString('base64url', 0, ownerBytes);
  return words.map((word) => `${prefix} ${word}`);
}

/** Enough that two users of one server never have the same words. */
const ownerBytes = 15;

/**
 * The words of a query. A message must contain all of them. At most five terms count; a run of CJK is one
 * term of many words.
 */
export function queryWords(query: string): string[] {
  const words = new Set<string>();
  let terms = 0;
  for (const term of termsOf(query)) {
    for (const word of term) words.add(word);
    terms += 1;
    if (terms === queryTermsMax) break;
  }
  return [...words];
}

function* termsOf(text: string): Generator<string[]> {
  if (plainText.test(text)) {
    for (const run of text.toLowerCase().match(plainRun) ?? []) if (isWord(run)) yield [run];
    return;
  }
  for (const [run] of text.toLowerCase().normalize('NFC').matchAll(wordRun)) {
    if (plainWord.test(run) || !cjk.test(run)) {
      if (isWord(run)) yield [run];
      continue;
    }
    yield* mixedTerms(run);
  }
}

/** A run with CJK in it: its CJK parts become pairs, and the text between them stays words. */
function* mixedTerms(run: string): Generator<string[]> {
  let at = 0;
  for (const match of run.matchAll(cjkRun)) {
    const before = run.slice(at, match.index);
    if (isWord(before)) yield [before];
    const pairs = pairsOf(match[0]);
    if (pairs.length > 0) yield pairs;
    at = match.index + match[0].length;
  }
  const rest = run.slice(at);
  if (isWord(rest)) yield [rest];
}

function pairsOf(run: string): string[] {
  const characters = [...run];
  return characters.slice(1).map((character, index) => `${characters[index] as string}${character}`);
}

function isWord(run: string): boolean {
  // UTF-16 units are at least as many as characters and at most twice as many: most words need no exact
  // count.
  if (run.length < wordCharactersMin) return false;
  if (run.length <= wordCharactersMax && run.length >= 2 * wordCharactersMin) return true;
  const characters = [...run].length;
  return characters >= wordCharactersMin && characters <= wordCharactersMax;
}
