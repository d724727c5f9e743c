/**
 * How results are ordered: the formula and its constants, each with its reason. Both homes call these
 * functions with the same numbers in the same order, so their scores are equal to the last bit.
 *
 * For each word of the query (a group of terms), BM25F over two fields:
 *
 *   hits   = Σ over fields: fieldWeight × weightedCount / (1 − b + b × length / averageLength)
 *   word   = idf × hits × (k1 + 1) / (hits + k1)          idf = ln(1 + (N − n + 0.5) / (n + 0.5))
 *
 *   base   = Σ word / Σ over counted words of idf × (k1 + 1)            between 0 and 1
 *   part   = Σ idf of the words that the entry has / Σ idf of all       how much of the question it has
 *            (both sums without words that nothing in the searched collections has)
 *   rank   = base × part^coveragePower × (1 + nearWeight × nearness) × (1 + freshWeight × freshness),
 *            divided by its highest value
 *   score  = (1 + rank) / 2 if the entry has all words, rank / 2 otherwise
 *   nearness is in `nearness.ts`; it is 1 for a single word
 *
 * The constants were chosen on one half of the made questions (400 of 800, among 4,000 notes, by the mean of
 * 1 / place of the answer), one after the other. Before: 0.761. nearWeight 0.6 0.806, 1 0.832, 1.5 0.855, 2.5
 * 0.866; then nearWordsMax 24 0.845, 12 0.880, 8 0.895; stemWeight 0.4 0.898, 0.8 0.895; k1 0.6 0.907, 0.9
 * 0.902, 1.6 0.891; bodyLengthWeight 0.3 0.910, 0.45 0.909, 0.75 0.904. Differences below 0.005 are not worth
 * a change. `npm run bench -- find` reports the other half.
 *
 * So all words come first, then most words; rare words count more than common ones.
 */

/**
 * How fast repeating a word stops helping. Below the usual 1.2: a note that says a word ten times is rarely a
 * better answer than one that says it twice.
 */
export const k1 = 0.9;
/**
 * How much a long body lowers the score of an entry. Notes of agents have reasons to vary in length: below
 * the usual 0.75.
 */
export const bodyLengthWeight = 0.45;
/** Titles and keys are short, and a long key is not a worse key. */
export const titleLengthWeight = 0.3;
/** A word in the key or title says what the entry is about. */
export const titleWeight = 2.5;
export const bodyWeight = 1;
/** Most words first: above 1, an entry with three rare words of four beats one with two of them repeated. */
export const coveragePower = 1.5;
/** An entry with less of the question than this is not a result. It lets homes skip the lists of very common words. */
export const coverageMin = 0.15;
/**
 * Words together, as in the question, are worth up to this much more. The constant that matters most: a
 * sentence with all words is the answer more often than a long note that has them here and there. With 2.5
 * one question in a hundred more is answered, but made questions are closer to their answers than real ones.
 */
export const nearWeight = 1.5;
/** The part of nearness that all words in one sentence make; the rest is for words side by side. */
export const togetherShare = 0.5;
/** Words further apart than this are not near. A clause: with 16, chance brings common words together in every note. */
export const nearWordsMax = 8;
/** Newer first when scores are close: an entry of this moment is worth at most 4 % more than a very old one. */
export const freshWeight = 0.04;
/** After this time an entry has half of that. */
const freshHalfLifeMs = 30 * 24 * 3_600_000;
/** Whole compounds (`user_id`) add to the score of their parts, and are not required. */
export const wholeWeight = 0.5;
/** Light words (`which`, `did`) are not required either. */
export const lightWeight = 0.1;
/** An exact form is worth more than another form of the same word. */
export const stemWeight = 0.6;

/** The numbers of the collections that a search covers: only of what the caller may read. */
export interface Statistics {
  /** Entries that are not deleted and have not expired. */
  readonly entries: number;
  /** Words in the titles and bodies of these entries. */
  readonly titleLength: number;
  readonly bodyLength: number;
  /** For each group of the query: how many of these entries have one of its terms. */
  readonly frequencies: readonly number[];
}

export function inverseFrequency(entries: number, frequency: number): number {
  return Math.log(1 + (Math.max(0, entries - frequency) + 0.5) / (frequency + 0.5));
}

/** From 0 to 1, for the age of an entry at the time of the search. */
export function freshnessOf(timeMs: number, asOfMs: number): number {
  return 2 ** (-Math.max(0, asOfMs - timeMs) / freshHalfLifeMs);
}
