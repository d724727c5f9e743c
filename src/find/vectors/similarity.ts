/**
 * Compares vectors one by one. Both homes call this with the same numbers, so their scores are equal to the
 * last bit.
 */
import type { EntryFacts, RankedEntry } from '../model.js';
import { BestEntries } from '../ranking/order.js';
import type { VectorSearch } from './port.js';

/** The cosine of two vectors of length 1. Four sums at once: twice as fast here as one. */
export function cosineOf(a: Float32Array, b: Float32Array): number {
  const { length } = a;
  let [s0, s1, s2, s3] = [0, 0, 0, 0];
  let at = 0;
  for (; at + 3 < length; at += 4) {
    s0 += (a[at] as number) * (b[at] as number);
    s1 += (a[at + 1] as number) * (b[at + 1] as number);
    s2 += (a[at + 2] as number) * (b[at + 2] as number);
    s3 += (a[at + 3] as number) * (b[at + 3] as number);
  }
  for (; at < length; at += 1) s0 += (a[at] as number) * (b[at] as number);
  return s0 + s1 + (s2 + s3);
}

/** From 0 for the opposite to 1 for the same direction. */
export function scoreOf(cosine: number): number {
  return Math.min(1, Math.max(0, (1 + cosine) / 2));
}

/** Whether the search covers the document. */
export function isCovered({ name, author, timeMs, expiresAtMs }: EntryFacts, search: VectorSearch): boolean {
  const { prefix, author: wanted, sinceMs, untilMs, nowMs } = search;
  if (expiresAtMs !== null && expiresAtMs <= nowMs) return false;
  if (prefix !== null && !name.id.startsWith(prefix)) return false;
  if (wanted !== null && author !== wanted) return false;
  return (sinceMs === null || timeMs >= sinceMs) && (untilMs === null || timeMs < untilMs);
}

/** Keeps the most similar documents. */
export class MostSimilar {
  readonly #search: VectorSearch;
  readonly #best: BestEntries<RankedEntry>;
  #compared = 0;

  constructor(search: VectorSearch) {
    this.#search = search;
    this.#best = new BestEntries(search.limit, null);
  }

  /** Documents that were compared. */
  get compared(): number {
    return this.#compared;
  }

  add(facts: EntryFacts, vector: Float32Array): void {
    this.#compared += 1;
    this.#best.add({ ...facts, score: scoreOf(cosineOf(this.#search.vector, vector)) });
  }

  inOrder(): RankedEntry[] {
    return this.#best.inOrder();
  }
}
