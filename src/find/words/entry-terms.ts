/**
 * The terms of one thing: what the index stores of its text. A term is a folded word, or a stem with a mark.
 * Both homes store exactly these terms, with exactly these counts and positions.
 */
import type { EntryText } from '../model.js';
import { stemOf } from './stem.js';
import { eachToken } from './words.js';

/** The occurrences of one term in one thing. */
export interface TermUse {
  /** How often it stands in the title and in the body. */
  readonly title: number;
  readonly body: number;
  /** The first places where it stands, in order; titles come before bodies. */
  readonly positions: readonly number[];
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
  const uses = new Map<string, Use>();
  let offset = 0;
  const readPieces = (pieces: readonly string[], isTitle: boolean): number => {
    let length = 0;
    for (const piece of pieces) {
      let last = -1;
      eachToken(piece, (word, position, kind) => {
        if (position !== last && kind !== 'whole') length += 1;
        if (position > last) last = position;
        const use = useOf(uses, word);
        use.add(isTitle, offset + position);
        if (kind === 'word') use.stemIn(uses, word)?.add(isTitle, offset + position);
      });
      offset += last + 1 + pieceGap;
    }
    return length;
  };
  const titleLength = readPieces(text.title, true);
  const bodyLength = readPieces(text.body, false);
  return { titleLength, bodyLength, terms: uses };
}

class Use implements TermUse {
  title = 0;
  body = 0;
  readonly positions: number[] = [];
  #stem: Use | null | undefined;

  add(isTitle: boolean, position: number): void {
    if (isTitle) this.title += 1;
    else this.body += 1;
    const { positions } = this;
    const count = positions.length;
    // A compound comes after its parts, and begins before them.
    if (count < positionsPerTermMax && (count === 0 || position > (positions[count - 1] as number)))
      positions.push(position);
  }

  /** The use of the stem of this word, which is looked up once; null if the word has none. */
  stemIn(uses: Map<string, Use>, word: string): Use | null {
    if (this.#stem === undefined) {
      const stem = stemTermOf(word);
      this.#stem = stem === undefined ? null : useOf(uses, stem);
    }
    return this.#stem;
  }
}

function useOf(uses: Map<string, Use>, term: string): Use {
  let use = uses.get(term);
  if (use === undefined) {
    use = new Use();
    uses.set(term, use);
  }
  return use;
}
