/**
 * The terms of one thing: what the index stores of its text. A term is a folded word, or a stem with a mark.
 * Both homes store exactly these terms, with exactly these counts and positions.
 */
import type { EntryText } from '../model.js';
import { mayHaveStem, stemOf } from './stem.js';
import { TermTable } from './term-table.js';
import { type Token, eachToken } from './words.js';

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

/** What the columns have for the stem of a term that was not looked up, and of one that has none. */
const [unknownStem, noStem] = [-2, -1];

/**
 * The terms of one text, in columns that the next text uses again: an object for each word took as long as finding
 * the words.
 */
export class EntryTerms {
  /** Words in each field; compounds and stems are not counted. */
  titleLength = 0;
  bodyLength = 0;
  readonly table = new TermTable();
  /** How often each term stands in the title and in the body. */
  titles = new Int32Array(256);
  bodies = new Int32Array(256);
  /** How many places of each term are stored, and where its first one is in `places`. */
  placeCounts = new Int32Array(256);
  firstPlaces = new Int32Array(256);
  /** The places of all terms, with the index of the next one of the same term. */
  places = new Int32Array(1_024);
  nextPlaces = new Int32Array(1_024);
  #lastPlaces = new Int32Array(256);
  /** The number of the term that is the stem. */
  #stems = new Int32Array(256);
  /** Terms that have their columns. */
  #columns = 0;
  #placesUsed = 0;
  #isTitle = true;
  /** Where the present piece begins. */
  #offset = 0;
  /** The last place in the present piece, and the words in the present field. */
  #last = -1;
  #length = 0;

  /** Forgets the text before. */
  read({ title, body }: EntryText): void {
    this.table.clear();
    [this.#columns, this.#placesUsed, this.#offset] = [0, 0, 0];
    // Titles come before bodies.
    this.titleLength = this.#readField(title, true);
    this.bodyLength = this.#readField(body, false);
  }

  /** Adds a term that stands at the beginning of the body. */
  addFirst(term: string): void {
    this.#use(this.#known(this.table.numberOfWord(term)), 0);
  }

  #readField(pieces: readonly string[], isTitle: boolean): number {
    [this.#isTitle, this.#length] = [isTitle, 0];
    for (const piece of pieces) {
      this.#last = -1;
      eachToken(piece, this.#onToken, this.#onRun);
      this.#offset += this.#last + 1 + pieceGap;
    }
    return this.#length;
  }

  readonly #onToken = (word: string, position: number, kind: Token['kind']): void => {
    if (position !== this.#last && kind !== 'whole') this.#length += 1;
    if (position > this.#last) this.#last = position;
    const term = this.#known(this.table.numberOfWord(word));
    this.#use(term, this.#offset + position);
    if (kind === 'word') this.#useStem(term, position);
  };

  readonly #onRun = (
    text: string,
    start: number,
    end: number,
    position: number,
    isWord: boolean,
  ): boolean => {
    const term = this.#known(this.table.numberOfRun(text, start, end));
    if (term < 0) return false;
    if (position !== this.#last) this.#length += 1;
    if (position > this.#last) this.#last = position;
    this.#use(term, this.#offset + position);
    if (isWord && this.#stems[term] !== noStem) this.#useStem(term, position);
    return true;
  };

  #useStem(term: number, position: number): void {
    if (this.#stems[term] === unknownStem) {
      const stem = this.#stemOf(term);
      const number = stem === undefined ? noStem : this.#known(this.table.numberOfWord(stem));
      this.#stems[term] = number;
    }
    const stem = this.#stems[term] as number;
    if (stem !== noStem) this.#use(stem, this.#offset + position);
  }

  #stemOf(term: number): string | undefined {
    const { bytes, starts } = this.table;
    const [from, to] = [starts[term] as number, starts[term + 1] as number];
    // Only words of ASCII have other stems, so their bytes are their characters.
    return mayHaveStem(bytes[to - 1] as number) ? stemTermOf(bytes.toString('latin1', from, to)) : undefined;
  }

  /** With columns for the term, if it is new. */
  #known(term: number): number {
    if (term !== this.#columns) return term;
    if (term === this.titles.length) this.#grow();
    this.titles[term] = 0;
    this.bodies[term] = 0;
    this.placeCounts[term] = 0;
    this.#stems[term] = unknownStem;
    this.#columns = term + 1;
    return term;
  }

  #grow(): void {
    this.titles = larger(this.titles);
    this.bodies = larger(this.bodies);
    this.placeCounts = larger(this.placeCounts);
    this.firstPlaces = larger(this.firstPlaces);
    this.#lastPlaces = larger(this.#lastPlaces);
    this.#stems = larger(this.#stems);
  }

  #use(term: number, position: number): void {
    if (this.#isTitle) this.titles[term] = (this.titles[term] as number) + 1;
    else this.bodies[term] = (this.bodies[term] as number) + 1;
    const count = this.placeCounts[term] as number;
    if (count === positionsPerTermMax) return;
    const last = this.#lastPlaces[term] as number;
    // A compound comes after its parts, and begins before them.
    if (count > 0 && position <= (this.places[last] as number)) return;
    const place = this.#placesUsed;
    if (place === this.places.length) {
      this.places = larger(this.places);
      this.nextPlaces = larger(this.nextPlaces);
    }
    this.places[place] = position;
    if (count === 0) this.firstPlaces[term] = place;
    else this.nextPlaces[last] = place;
    this.#lastPlaces[term] = place;
    this.placeCounts[term] = count + 1;
    this.#placesUsed = place + 1;
  }
}

function larger(old: Int32Array<ArrayBuffer>): Int32Array<ArrayBuffer> {
  const grown = new Int32Array(old.length * 2);
  grown.set(old);
  return grown;
}
