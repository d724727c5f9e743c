/** What a search keeps of the entries that are in no segment yet: their facts, and the terms that it looks up. */
import { isStemTerm } from '../words/entry-terms.js';
import { beginningWordsMax } from './beginnings.js';
import type { IndexedFacts } from './catalog.js';
import { type PackedUse, packedLengths, packedTerms } from './packed-terms.js';
import type { WaitingEntry } from './segment.js';
import { compareWords } from './word-order.js';

/** Terms and beginnings of terms that a search looks up. */
export interface Wanted {
  readonly terms: readonly string[];
  readonly beginnings: readonly string[];
}

export interface SeenWaiting extends IndexedFacts {
  readonly terms: ReadonlyMap<string, PackedUse>;
}

/**
 * A search that kept all terms of twenty thousand waiting entries would need gigabytes. This one copies what
 * it looks up, so the words of an entry can be dropped.
 */
export class WaitingTerms {
  readonly #terms: ReadonlySet<string>;
  readonly #beginnings: readonly string[];

  constructor({ terms, beginnings }: Wanted) {
    this.#terms = new Set(terms);
    this.#beginnings = beginnings;
  }

  of({ packed, ...facts }: WaitingEntry): SeenWaiting {
    const terms = new Map<string, PackedUse>();
    const begun = this.#beginnings.map((): [string, PackedUse][] => []);
    for (const [term, use] of packedTerms(packed)) {
      if (this.#terms.has(term)) terms.set(term, copied(use));
      for (const [index, begin] of this.#beginnings.entries())
        if (term.startsWith(begin) && !isStemTerm(term)) begun[index]?.push([term, use]);
    }
    // The first words of all entries are among the first words of each.
    for (const found of begun)
      for (const [term, use] of found
        .toSorted(([a], [b]) => compareWords(a, b))
        .slice(0, beginningWordsMax + 1))
        terms.set(term, copied(use));
    return { ...facts, ...packedLengths(packed), terms };
  }
}

/** With bytes of its own. */
function copied({ shape, bytes, countsFrom, positionsFrom, positionsTo }: PackedUse): PackedUse {
  return {
    shape,
    bytes: Buffer.from(bytes.subarray(countsFrom, positionsTo)),
    countsFrom: 0,
    positionsFrom: positionsFrom - countsFrom,
    positionsTo: positionsTo - countsFrom,
  };
}
