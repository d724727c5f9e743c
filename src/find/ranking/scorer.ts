/** Scores the entries of one search. */
import type { Query } from '../query/query.js';
import {
  type Statistics,
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
} from './formula.js';
import { NearnessMax } from './nearness.js';

/** What an entry has of the query. */
export interface Match {
  /** From 0 to 1; below 0 if the entry is not a result. */
  readonly part: number;
  readonly hasAll: boolean;
  /** What `nearnessOf` can at most be, by the words that the entry has; 0 only if it is 0. */
  readonly nearnessMax: number;
}

const tooLittle: Match = { part: -1, hasAll: false, nearnessMax: 0 };

function scoreOf(part: number, hasAll: boolean, nearness: number, freshness: number): number {
  const raised = part * (1 + nearWeight * nearness) * (1 + freshWeight * freshness);
  const rank = raised / ((1 + nearWeight) * (1 + freshWeight));
  return hasAll ? (1 + rank) / 2 : rank / 2;
}

export class Scorer {
  /** For each group of the query. */
  readonly inverseFrequencies: readonly number[];
  readonly #isCounted: readonly boolean[];
  readonly #weights: readonly number[];
  readonly #countedGroups: number;
  readonly #frequencySum: number;
  /** Bounds nearness by the words that an entry has. */
  readonly #near: NearnessMax;
  readonly #averageTitle: number;
  readonly #averageBody: number;
  readonly #asOfMs: number;

  constructor({ groups }: Query, statistics: Statistics, asOfMs: number) {
    const { entries, titleLength, bodyLength, frequencies } = statistics;
    this.inverseFrequencies = groups.map((_, index) => inverseFrequency(entries, frequencies[index] ?? 0));
    this.#isCounted = groups.map(({ isCounted }) => isCounted);
    this.#weights = groups.map(({ weight }) => weight);
    this.#countedGroups = groups.filter(({ isCounted }) => isCounted).length;
    // A word that nothing has says nothing about which entry is better.
    let sum = 0;
    for (const [index, value] of this.inverseFrequencies.entries())
      if (this.#isCounted[index] && (frequencies[index] ?? 0) > 0) sum += value;
    this.#frequencySum = sum;
    this.#near = new NearnessMax(this.inverseFrequencies.filter((_, index) => this.#isCounted[index]));
    this.#averageTitle = Math.max(1, titleLength / Math.max(1, entries));
    this.#averageBody = Math.max(1, bodyLength / Math.max(1, entries));
    this.#asOfMs = asOfMs;
  }

  /**
   * How much of the question the entry has, from 0 to 1, before nearness and freshness: below 0 if it is too
   * little. `titles` and `bodies` have an item for each group: its weighted counts in the entry, 0 if it does
   * not have the word.
   */
  match(titleLength: number, bodyLength: number, titles: Float64Array, bodies: Float64Array): Match {
    const titleNorm = 1 - titleLengthWeight + (titleLengthWeight * titleLength) / this.#averageTitle;
    const bodyNorm = 1 - bodyLengthWeight + (bodyLengthWeight * bodyLength) / this.#averageBody;
    let words = 0;
    let frequencyHad = 0;
    let counted = 0;
    // Words of the question that stand side by side in it, and that the entry has both.
    let neighbours = 0;
    let hadBefore = false;
    for (let index = 0; index < titles.length; index += 1) {
      const hits =
        (titleWeight * (titles[index] as number)) / titleNorm +
        (bodyWeight * (bodies[index] as number)) / bodyNorm;
      if (hits === 0) {
        if (this.#isCounted[index] === true) hadBefore = false;
        continue;
      }
      const inverse = this.inverseFrequencies[index] as number;
      const word = (inverse * hits * (k1 + 1)) / (hits + k1);
      if (this.#isCounted[index] === true) {
        words += word;
        frequencyHad += inverse;
        counted += 1;
        if (hadBefore) neighbours += 1;
        hadBefore = true;
      } else {
        words += (this.#weights[index] as number) * word;
      }
    }
    const part = frequencyHad / this.#frequencySum;
    if (counted === 0 || part < coverageMin) return tooLittle;
    const base = Math.min(1, words / (this.#frequencySum * (k1 + 1)));
    return {
      part: base * part ** coveragePower,
      hasAll: counted === this.#countedGroups,
      nearnessMax: counted === 1 && this.#countedGroups > 1 ? 0 : this.#near.of(frequencyHad, neighbours),
    };
  }

  /** The score of a match. `nearness` is from `nearnessOf`. */
  score({ part, hasAll }: Match, timeMs: number, nearness: number): number {
    return scoreOf(part, hasAll, nearness, freshnessOf(timeMs, this.#asOfMs));
  }

  /** The highest score that the match can have. */
  highest({ part, hasAll, nearnessMax }: Match): number {
    return scoreOf(part, hasAll, nearnessMax, 1);
  }

  /**
   * The groups of which an entry must have at least one to be a result: all but the most common ones, which
   * together are too little of the question.
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
