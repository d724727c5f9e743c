/** Scores the entries of one search. */
import type { Query } from '../query/query.js';
import {
  type Statistics,
  type WeightedUse,
  bodyLengthWeight,
  bodyWeight,
  coverageMin,
  coveragePower,
  freshWeight,
  freshnessOf,
  inverseFrequency,
  k1,
  nearWeight,
  titleLengthWeight,
  titleWeight,
  wholeWeight,
} from './formula.js';

/** The numbers of one entry that its score depends on. */
export interface ScoredEntry {
  readonly titleLength: number;
  readonly bodyLength: number;
  readonly timeMs: number;
}

export class Scorer {
  /** For each group of the query. */
  readonly inverseFrequencies: readonly number[];
  readonly #isCounted: readonly boolean[];
  readonly #countedGroups: number;
  readonly #frequencySum: number;
  readonly #averageTitle: number;
  readonly #averageBody: number;
  readonly #asOfMs: number;

  constructor({ groups }: Query, statistics: Statistics, asOfMs: number) {
    const { entries, titleLength, bodyLength, frequencies } = statistics;
    this.inverseFrequencies = groups.map((_, index) => inverseFrequency(entries, frequencies[index] ?? 0));
    this.#isCounted = groups.map(({ isCounted }) => isCounted);
    this.#countedGroups = groups.filter(({ isCounted }) => isCounted).length;
    // A word that nothing has says nothing about which entry is better.
    let sum = 0;
    for (const [index, value] of this.inverseFrequencies.entries())
      if (this.#isCounted[index] && (frequencies[index] ?? 0) > 0) sum += value;
    this.#frequencySum = sum;
    this.#averageTitle = Math.max(1, titleLength / Math.max(1, entries));
    this.#averageBody = Math.max(1, bodyLength / Math.max(1, entries));
    this.#asOfMs = asOfMs;
  }

  /**
   * The score, or undefined if the entry has too little of the question. `uses` has an item for each group;
   * undefined means that the entry does not have the word. `nearness` is from `nearnessOf`, or its highest value 1
   * for the highest score that the entry could have.
   */
  score(
    entry: ScoredEntry,
    uses: readonly (WeightedUse | undefined)[],
    nearness: number,
  ): number | undefined {
    const titleNorm = 1 - titleLengthWeight + (titleLengthWeight * entry.titleLength) / this.#averageTitle;
    const bodyNorm = 1 - bodyLengthWeight + (bodyLengthWeight * entry.bodyLength) / this.#averageBody;
    let words = 0;
    let frequencyHad = 0;
    let counted = 0;
    for (let index = 0; index < uses.length; index += 1) {
      const use = uses[index];
      if (use === undefined) continue;
      const inverse = this.inverseFrequencies[index] as number;
      const hits = (titleWeight * use.title) / titleNorm + (bodyWeight * use.body) / bodyNorm;
      const word = (inverse * hits * (k1 + 1)) / (hits + k1);
      if (this.#isCounted[index]) {
        words += word;
        frequencyHad += inverse;
        counted += 1;
      } else {
        words += wholeWeight * word;
      }
    }
    const part = frequencyHad / this.#frequencySum;
    if (counted === 0 || part < coverageMin) return undefined;
    const base = Math.min(1, words / (this.#frequencySum * (k1 + 1)));
    const raised =
      base *
      part ** coveragePower *
      (1 + nearWeight * nearness) *
      (1 + freshWeight * freshnessOf(entry.timeMs, this.#asOfMs));
    const rank = raised / ((1 + nearWeight) * (1 + freshWeight));
    return counted === this.#countedGroups ? (1 + rank) / 2 : rank / 2;
  }

  /**
   * The groups of which an entry must have at least one to be a result: all but the most common ones, which together
   * are too little of the question.
   */
  essentialGroups(): number[] {
    const order = this.inverseFrequencies
      .map((value, index) => ({ value, index }))
      .filter(({ index }) => this.#isCounted[index])
      .toSorted((a, b) => a.value - b.value || a.index - b.index);
    let sum = 0;
    let skipped = 0;
    // One rounding of a sum must not leave out a result, hence the small reserve.
    while (skipped < order.length - 1) {
      sum += (order[skipped] as { value: number }).value;
      if (sum >= coverageMin * this.#frequencySum * 0.999) break;
      skipped += 1;
    }
    return order.slice(skipped).map(({ index }) => index);
  }
}
