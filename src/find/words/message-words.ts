/**
 * The words of messages in the index. AICQ's search has other rules for words: no folding, no stems, no
 * parts. Its words are nearly always terms of the index too. A word that is not gets a separate term, so that
 * the entries with the terms of a word are all messages that have the word, and perhaps a few more.
 */
import { indexWords } from '../../messaging/messages/tokenizer.js';
import type { EntryTerms } from './entry-terms.js';
import { fold } from './fold.js';

/** Begins the terms that only AICQ's search looks for. No word begins with it. */
const exactMark = '=';
/** Always a term of a text that has it, whatever stands beside it. */
const plainWord = /^[a-z0-9]{1,100}$/;

/** The terms under which a message with this word is stored: one of them, or both. */
export function termsOfMessageWord(word: string): string[] {
  return plainWord.test(word) ? [word] : [fold(word), exactMark + word];
}

export function withMessageWords(entry: EntryTerms, body: string): EntryTerms {
  const missing = indexWords(body).filter((word) => !entry.terms.has(fold(word)));
  if (missing.length === 0) return entry;
  const terms = new Map(entry.terms);
  for (const word of missing) terms.set(exactMark + word, { title: 0, body: 1, positions: [0] });
  return { ...entry, terms };
}
