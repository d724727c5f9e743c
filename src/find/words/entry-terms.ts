/**
 * The terms of one thing: what the index stores of its text. A term is a folded word, or a stem with a mark. Both homes
 * store exactly these terms, with exactly these counts and positions.
 */
import type { EntryText } from '../model.js';
import { stemOf } from './stem.js';
import { eachToken } from './words.js';

/** The occurrences of one term in one thing. */
export interface TermUse {
  /** How often it stands in the title and in the body. */
  title: number;
  body: number;
  /** The first places where it stands, in order; titles come before bodies. */
  readonly positions: number[];
}

export interface EntryTerms {
  /** Words in each field; compounds and stems are not counted. */
  readonly titleLength: number;
  readonly bodyLength: number;
  readonly terms: ReadonlyMap<string, TermUse>;
}

/** Ends the terms that are stems. No word has it, and it sorts a stem right behind the word that is spelt like it. */
const stemMark = '\u0001';
/** Further occurrences are counted, and their places are not stored. */
export const positionsPerTermMax = 24;
/** Between two pieces of text, so that no phrase and no pair of near words spans them. */
const pieceGap = 17;

/** The term under which the other forms of a word are stored: undefined for a word that is its own stem. */
export function stemTermOf(word: string): string | undefined {
  const stem = stemOf(word);
  return stem === word ? undefined : formsTermOf(stem);
}

/** The term that other forms of a stem have. */
export function formsTermOf(stem: string): string {
  return stem + stemMark;
}

export function isStemTerm(term: string): boolean {
  return term.endsWith(stemMark);
}

export function entryTermsOf(text: EntryText): EntryTerms {
  const terms = new Map<string, TermUse>();
  let offset = 0;
  const readPieces = (pieces: readonly string[], field: 'title' | 'body'): number => {
    let length = 0;
    for (const piece of pieces) {
      let last = -1;
      eachToken(piece, ({ word, position, kind }) => {
        if (position !== last && kind !== 'whole') length += 1;
        last = Math.max(last, position);
        use(terms, word, field, offset + position);
        const stem = kind === 'word' ? stemTermOf(word) : undefined;
        if (stem !== undefined) use(terms, stem, field, offset + position);
      });
      offset += last + 1 + pieceGap;
    }
    return length;
  };
  const titleLength = readPieces(text.title, 'title');
  const bodyLength = readPieces(text.body, 'body');
  return { titleLength, bodyLength, terms };
}

function use(terms: Map<string, TermUse>, term: string, field: 'title' | 'body', position: number): void {
  const known = terms.get(term);
  if (known === undefined) {
    terms.set(term, {
      title: field === 'title' ? 1 : 0,
      body: field === 'body' ? 1 : 0,
      positions: [position],
    });
    return;
  }
  known[field] += 1;
  // A compound comes after its parts, and begins before them.
  const previous = known.positions.at(-1) as number;
  if (known.positions.length < positionsPerTermMax && position > previous) known.positions.push(position);
}
