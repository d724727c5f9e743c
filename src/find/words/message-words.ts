/**
 * The words of messages in the index. AICQ's search has other rules for words: no folding, no stems, no
 * parts. Its words are nearly always terms of the index too. A word that is not gets a separate term, so that
 * the entries with the terms of a word are all messages that have the word, and perhaps a few more.
 */
import { indexWords } from '../../messaging/messages/tokenizer.js';
import { fold } from './fold.js';
import type { TermTable } from './term-table.js';

/** Begins the terms that only AICQ's search looks for. No word begins with it. */
const exactMark = '=';
/** Always a term of a text that has it, whatever stands beside it. */
const plainWord = /^[a-z0-9]{1,100}$/;

/** All of ASCII without an underscore: the words are the runs of letters and digits. */
// oxlint-disable-next-line no-control-regex -- all of ASCII
const plainText = /^[\0-^`-\x7f]*$/;

/** The terms under which a message with this word is stored: one of them, or both. */
export function termsOfMessageWord(word: string): string[] {
  return plainWord.test(word) ? [word] : [fold(word), exactMark + word];
}

/** The separate terms of a message whose other terms are in the table. */
export function missingWords(body: string, table: TermTable): string[] {
  // Nearly every message: each of its words is a plain one.
  if (plainText.test(body)) return [];
  return indexWords(body)
    .filter((word) => !table.has(fold(word)))
    .map((word) => exactMark + word);
}
