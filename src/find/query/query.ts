/**
 * The query language: words, `"exact phrases"`, `-excluded` words or phrases, and `begin*` for words that
 * begin so.
 */
import { lightWeight, stemWeight, wholeWeight } from '../ranking/formula.js';
import { formsTermOf } from '../words/entry-terms.js';
import { isLightWord } from '../words/light-words.js';
import { canHaveForms, stemOf } from '../words/stem.js';
import { type Token, isSpaceless, tokensOf } from '../words/words.js';

/** One term of the index that a word of the query looks for. */
interface QueryTerm {
  readonly term: string;
  /** 1 for the exact word; less for another form of it. */
  readonly weight: number;
  /** True: every word that begins with `term`. */
  readonly isPrefix: boolean;
}

/** A word of the query, with all terms that stand for it. An entry has the word if it has one of the terms. */
export interface QueryGroup {
  readonly terms: readonly QueryTerm[];
  /** False: the word adds to the score, and an entry without it still has all words. */
  readonly isCounted: boolean;
  /** What the word is worth beside the others. */
  readonly weight: number;
}

export interface Query {
  readonly groups: readonly QueryGroup[];
  /** An entry must have all of these. */
  readonly phrases: readonly Phrase[];
  /** An entry with one of these phrases or words is not found. */
  readonly excluded: readonly Phrase[];
}

/** Words that stand together, each at a fixed distance from the first. A phrase may be one word. */
export type Phrase = readonly { readonly term: string; readonly offset: number }[];

/** Words of a query that are used; further ones are ignored. */
const queryWordsMax = 32;
/** Each beginning stands for up to 256 words. Further ones stand for the word itself. */
const queryBeginningsMax = 4;

const part = /(-?)"([^"]*)"?|(\S+)/g;

export function parseQuery(text: string): Query {
  const builder = new QueryBuilder();
  for (const [, minus = '', phrase, plain = ''] of text.matchAll(part)) {
    if (phrase !== undefined) builder.addPhrase(phrase, minus === '-');
    else if (plain.length > 1 && plain.startsWith('-')) builder.addExcluded(plain.slice(1));
    else builder.addWords(plain);
  }
  return builder.query();
}

/** Whether the query asks for nothing that could be found. */
export function isEmptyQuery({ groups }: Query): boolean {
  return !groups.some(({ isCounted }) => isCounted);
}

/** Everything that a home looks up for a query: whole terms, and beginnings of terms. */
export function termsOfQuery({ groups, phrases, excluded }: Query): {
  readonly terms: readonly string[];
  readonly beginnings: readonly string[];
} {
  const terms = new Set<string>();
  const beginnings = new Set<string>();
  for (const group of groups)
    for (const { term, isPrefix } of group.terms) (isPrefix ? beginnings : terms).add(term);
  for (const phrase of [...phrases, ...excluded]) for (const { term } of phrase) terms.add(term);
  return { terms: [...terms], beginnings: [...beginnings] };
}

class QueryBuilder {
  readonly #groups = new Map<string, QueryGroup>();
  #beginnings = 0;
  readonly #phrases: Phrase[] = [];
  readonly #excluded: Phrase[] = [];

  addWords(text: string): void {
    const isPrefix = text.endsWith('*');
    const tokens = tokensOf(text);
    for (const [index, token] of tokens.entries()) {
      if (token.kind === 'whole') this.#add(token.word, [exactly(token.word)], wholeWeight);
      else if (token.kind === 'pair' && isLastOfRun(tokens, index)) this.#addLastCharacter(tokens, index);
      else if (isPrefix && index === tokens.length - 1) this.#addBeginning(token.word);
      else {
        const isLight = isLightWord(token.word) || isBesideApostrophe(text, token);
        this.#add(token.word, termsOf(token), isLight ? lightWeight : 1);
      }
    }
  }

  addPhrase(text: string, isExcluded: boolean): void {
    const phrase = phraseOf(text);
    const [first] = phrase;
    if (first === undefined) return;
    if (!isExcluded && phrase.length === 1 && isSpaceless(first.term)) {
      this.addWords(text);
      return;
    }
    (isExcluded ? this.#excluded : this.#phrases).push(phrase);
    if (!isExcluded) for (const { term } of phrase) this.#add(term, [exactly(term)], 1);
  }

  addExcluded(text: string): void {
    this.addPhrase(text, true);
  }

  query(): Query {
    const groups = [...this.#groups.values()];
    // A query of only light words looks for them.
    const isLight = !groups.some(({ isCounted }) => isCounted);
    return {
      groups: isLight ? groups.map(counted) : groups,
      phrases: this.#phrases,
      excluded: this.#excluded,
    };
  }

  /** One character of a script without spaces is the beginning of a pair. In a longer run the pairs suffice. */
  #addLastCharacter(tokens: readonly Token[], index: number): void {
    const { word, start } = tokens[index] as Token;
    const before = tokens[index - 1];
    if (before?.kind === 'pair' && before.end > start) return;
    this.#addBeginning(word);
  }

  #addBeginning(word: string): void {
    this.#beginnings += 1;
    if (this.#beginnings <= queryBeginningsMax) this.#add(`${word}*`, [beginning(word)], 1);
    else this.#add(word, [exactly(word)], 1);
  }

  #add(name: string, terms: readonly QueryTerm[], weight: number): void {
    if (this.#groups.size < queryWordsMax && !this.#groups.has(name))
      this.#groups.set(name, { terms, weight, isCounted: weight === 1 });
  }
}

/** The `s` of `what's`, both parts of `didn't` and the `l` of `l'élève` are not words of the question. */
function isBesideApostrophe(text: string, { start, end }: Token): boolean {
  const [before, after] = [text.slice(0, start), text.slice(end)];
  const isShort = end - start <= 2 && (/\p{L}['’]$/u.test(before) || /^['’]\p{L}/u.test(after));
  return isShort || /^['’]t(?!\p{L})/iu.test(after);
}

function counted({ terms, weight }: QueryGroup): QueryGroup {
  return weight === lightWeight ? { terms, weight: 1, isCounted: true } : { terms, weight, isCounted: false };
}

/** The words of a phrase. Parts stand for their compounds, and pairs for the last character of their run. */
function phraseOf(text: string): Phrase {
  const tokens = tokensOf(text).filter(({ kind }) => kind !== 'whole');
  const first = tokens[0]?.position ?? 0;
  return tokens
    .filter((token, index) => !(isLastOfRun(tokens, index) && (tokens[index - 1]?.end ?? 0) > token.start))
    .map(({ word, position }) => ({ term: word, offset: position - first }));
}

/** The last token of a run of pairs is a single character. */
function isLastOfRun(tokens: readonly Token[], index: number): boolean {
  const { kind, end } = tokens[index] as Token;
  const next = tokens[index + 1];
  return kind === 'pair' && !(next?.kind === 'pair' && next.start < end);
}

function termsOf({ word, kind }: Token): QueryTerm[] {
  if (kind !== 'word' || !canHaveForms(word)) return [exactly(word)];
  const stem = stemOf(word);
  const stemmed: QueryTerm = { term: formsTermOf(stem), weight: stemWeight, isPrefix: false };
  if (stem === word) return [exactly(word), stemmed];
  // The exact word is stored under its stem too, so its two weights add up to 1. The stem may be a word
  // itself.
  return [
    { term: word, weight: 1 - stemWeight, isPrefix: false },
    { term: stem, weight: stemWeight, isPrefix: false },
    stemmed,
  ];
}

function exactly(term: string): QueryTerm {
  return { term, weight: 1, isPrefix: false };
}

function beginning(term: string): QueryTerm {
  return { term, weight: 1, isPrefix: true };
}
