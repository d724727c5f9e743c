/** The words that a beginning (`dep*`) stands for: the first ones, in their order, that an entry of the search has. */
import { Slices } from '../../core/waiting/yielding.js';
import { isStemTerm } from '../words/entry-terms.js';
import { TermCursor } from './blocks.js';
import { ByteReader } from './bytes.js';
import { ListReader } from './postings.js';
import { compareWords } from './word-order.js';

/** Words that a beginning stands for; further ones are not looked at, and the answer says so. */
export const beginningWordsMax = 256;
/** Blocks that one search reads for a beginning: 64 MB. Most of them then have words that the search does not cover. */
const beginningBlocksMax = 16_384;

/** A segment whose words are read. */
export interface BegunSegment {
  /** For each of its entries, whether the search covers it. */
  readonly isSeen: Uint8Array;
  /** The blocks that can have words with this beginning, in their order. */
  blocksFrom(begin: Buffer): AsyncIterable<Buffer> | Iterable<Buffer>;
}

/** The words of one beginning. */
export interface Begun {
  /** In their order; one more than `beginningWordsMax` if there are more. */
  readonly words: readonly string[];
  /** For each segment, the blocks that have these words, in their order. */
  readonly blocks: readonly (readonly Buffer[])[];
  /** False if the search stopped at `beginningBlocksMax`. */
  readonly isComplete: boolean;
}

/** A block with a word that was found, and the first of these words. */
interface KeptBlock {
  readonly word: string;
  readonly body: Buffer;
}

/** The words of all beginnings of a query. */
export interface BegunWords {
  readonly words: ReadonlyMap<string, Begun>;
  readonly isComplete: boolean;
}

export async function wordsBeginningWith(
  beginnings: readonly string[],
  segments: readonly BegunSegment[],
): Promise<BegunWords> {
  const words = new Map<string, Begun>();
  for (const begin of beginnings) words.set(begin, await wordsBeginning(begin, segments));
  return { words, isComplete: [...words.values()].every(({ isComplete }) => isComplete) };
}

/** It lets other work run between blocks. */
async function wordsBeginning(begin: string, segments: readonly BegunSegment[]): Promise<Begun> {
  const reading = new Reading(begin);
  const slices = new Slices();
  const kept: KeptBlock[][] = [];
  let left = beginningBlocksMax;
  for (const { isSeen, blocksFrom } of segments) {
    const own: KeptBlock[] = [];
    kept.push(own);
    for await (const body of blocksFrom(reading.begin)) {
      if (left === 0) break;
      left -= 1;
      const { word, isPast } = reading.read(body, isSeen);
      if (word !== undefined) own.push({ word, body });
      if (isPast) break;
      await slices.pause();
    }
  }
  const words = reading.words();
  const last = words.at(-1);
  return {
    words,
    // Later words may have been replaced by earlier ones of another segment.
    blocks: kept.map((own) =>
      own.filter(({ word }) => last !== undefined && compareWords(word, last) <= 0).map(({ body }) => body),
    ),
    isComplete: left > 0,
  };
}

class Reading {
  readonly begin: Buffer;
  readonly #cursor = new TermCursor();
  readonly #found = new Set<string>();
  /** Words after this one are not needed. */
  #last: string | undefined;

  constructor(begin: string) {
    this.begin = Buffer.from(begin);
  }

  /** Notes the words of a block that begin so and that a seen entry has. */
  read(body: Buffer, isSeen: Uint8Array): { word: string | undefined; isPast: boolean } {
    const cursor = this.#cursor;
    let first: string | undefined;
    cursor.open(body);
    while (cursor.next()) {
      if (!this.#isBegun()) {
        if (cursor.compare(this.begin, this.begin.length) > 0) return { word: first, isPast: true };
        continue;
      }
      const word = cursor.term.toString('utf8', 0, cursor.length);
      if (this.#last !== undefined && compareWords(word, this.#last) > 0)
        return { word: first, isPast: true };
      if (isStemTerm(word) || !this.#isSeen(word, isSeen)) continue;
      this.#add(word);
      first ??= word;
    }
    return { word: first, isPast: false };
  }

  #isBegun(): boolean {
    const { begin } = this;
    return (
      this.#cursor.length >= begin.length &&
      this.#cursor.term.compare(begin, 0, begin.length, 0, begin.length) === 0
    );
  }

  #isSeen(word: string, isSeen: Uint8Array): boolean {
    if (this.#found.has(word)) return true;
    const { body, listFrom, listTo } = this.#cursor;
    return new ListReader(new ByteReader(body, listFrom, listTo)).hasSeen(isSeen);
  }

  #add(word: string): void {
    this.#found.add(word);
    if (this.#found.size <= 2 * beginningWordsMax) return;
    const words = this.words();
    this.#last = words.at(-1);
    this.#found.clear();
    for (const kept of words) this.#found.add(kept);
  }

  /** The first words, in their order; one more than `beginningWordsMax` if there are more. */
  words(): string[] {
    return [...this.#found].toSorted(compareWords).slice(0, beginningWordsMax + 1);
  }
}
