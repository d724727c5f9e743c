/** One search over what a home has gathered: counts, scores and orders. The same code for every home. */
import { checkWanted } from '../../core/waiting/cancellation.js';
import { Slices, inSlices } from '../../core/waiting/yielding.js';
import type { EntryFacts, RankedEntry } from '../model.js';
import type { IndexAnswer, IndexSearch } from '../port.js';
import type { Phrase, Query } from '../query/query.js';
import type { Statistics } from './formula.js';
import { type GroupList, type TermLists, indexOf, joinLists, listsOf } from './group-list.js';
import { type PositionsOf, hasPhrase, nearnessOf } from './nearness.js';
import { BestEntries } from './order.js';
import { Scorer } from './scorer.js';

/** The live entries of the searched collections. Each has an ordinal. */
export interface SearchedView extends TermLists {
  /** How many entries there are, and the words of their titles and bodies. */
  readonly count: number;
  readonly titleLength: number;
  readonly bodyLength: number;
  facts(ordinal: number): EntryFacts;
  /** The facts that a score depends on; `facts` costs more. Cheapest in ascending order of the ordinals. */
  scored(ordinal: number): {
    readonly titleLength: number;
    readonly bodyLength: number;
    readonly timeMs: number;
  };
}

/** Candidates between two looks at the clock. One with thirty words takes up to 0.1 ms. */
const candidatesPerLook = 16;

export async function searchView(
  view: SearchedView,
  search: IndexSearch,
  { findPostingsMax }: { readonly findPostingsMax: number },
): Promise<IndexAnswer> {
  const { query } = search;
  const slices = new Slices();
  const groups: GroupList[] = [];
  let postingsLeft = findPostingsMax;
  let isEveryWord = true;
  for (const group of query.groups) {
    const { found, isAll } = await inSlices(listsOf(group, view));
    const size = found.reduce((sum, { list }) => sum + list.ordinals.length, 0);
    groups.push(joinLists(size <= postingsLeft ? found : [], view.ordinals));
    postingsLeft -= size;
    isEveryWord &&= isAll;
    await slices.pause();
  }
  const statistics: Statistics = search.statistics ?? {
    entries: view.count,
    titleLength: view.titleLength,
    bodyLength: view.bodyLength,
    frequencies: groups.map(({ ordinals }) => ordinals.length),
  };
  const ranking = new Ranking(view, search, groups, statistics);
  while (ranking.run(candidatesPerLook)) {
    checkWanted(search.signal);
    const pause = slices.pause();
    if (pause !== undefined) await pause;
  }
  return { entries: ranking.best(), statistics, isComplete: postingsLeft >= 0 && isEveryWord };
}

/** Walks all entries that have one of the essential words, in the order of their ordinals. */
class Ranking {
  readonly #view: SearchedView;
  readonly #search: IndexSearch;
  readonly #groups: readonly GroupList[];
  readonly #scorer: Scorer;
  readonly #essential: readonly number[];
  readonly #best: BestEntries<RankedEntry>;
  /** For each group, the next index in its list. */
  readonly #at: Int32Array;
  /** For each group, how often the present entry has its word. */
  readonly #titles: Float64Array;
  readonly #bodies: Float64Array;

  constructor(view: SearchedView, search: IndexSearch, groups: readonly GroupList[], statistics: Statistics) {
    this.#view = view;
    this.#search = search;
    this.#groups = groups;
    this.#scorer = new Scorer(search.query, statistics, search.asOfMs);
    this.#essential = this.#scorer.essentialGroups();
    this.#best = new BestEntries(search.limit, search.after);
    this.#at = new Int32Array(groups.length);
    this.#titles = new Float64Array(groups.length);
    this.#bodies = new Float64Array(groups.length);
  }

  best(): RankedEntry[] {
    return this.#best.inOrder();
  }

  /** Returns false at the end. */
  run(candidates: number): boolean {
    for (let left = candidates; left > 0; left -= 1) {
      let ordinal = -1;
      for (const index of this.#essential) {
        const next = (this.#groups[index] as GroupList).ordinals[this.#at[index] as number];
        if (next !== undefined && (ordinal < 0 || next < ordinal)) ordinal = next;
      }
      if (ordinal < 0) return false;
      this.#consider(ordinal);
    }
    return true;
  }

  #consider(ordinal: number): void {
    for (let index = 0; index < this.#groups.length; index += 1) this.#advance(index, ordinal);
    const { titleLength, bodyLength, timeMs } = this.#view.scored(ordinal);
    const match = this.#scorer.match(titleLength, bodyLength, this.#titles, this.#bodies);
    if (match.part < 0 || this.#scorer.highest(match) < this.#best.scoreMin) return;
    const score = this.#scorer.score(match, timeMs, match.nearnessMax === 0 ? 0 : this.#nearness());
    if (score < this.#best.scoreMin) return;
    const facts = this.#view.facts(ordinal);
    if (!this.#passes(facts, ordinal)) return;
    const { name, version, author, expiresAtMs } = facts;
    this.#best.add({ name, version, author, timeMs, expiresAtMs, score });
  }

  /** Notes how often the entry has the word of the group. */
  #advance(index: number, ordinal: number): void {
    const { ordinals, titles, bodies } = this.#groups[index] as GroupList;
    let at = this.#at[index] as number;
    while (at < ordinals.length && (ordinals[at] as number) < ordinal) at += 1;
    const has = ordinals[at] === ordinal;
    this.#titles[index] = has ? (titles[at] as number) : 0;
    this.#bodies[index] = has ? (bodies[at] as number) : 0;
    this.#at[index] = has ? at + 1 : at;
  }

  #nearness(): number {
    const { groups } = this.#search.query;
    const counted: (number[] | undefined)[] = [];
    const weights: number[] = [];
    for (const [index, { isCounted }] of groups.entries()) {
      if (!isCounted) continue;
      weights.push(this.#scorer.inverseFrequencies[index] as number);
      const has = (this.#titles[index] as number) + (this.#bodies[index] as number) > 0;
      const list = this.#groups[index] as GroupList;
      counted.push(has ? list.positions((this.#at[index] as number) - 1) : undefined);
    }
    return nearnessOf(counted, weights);
  }

  #passes({ name, author, timeMs }: EntryFacts, ordinal: number): boolean {
    const { prefix, authors, sinceMs, untilMs, query } = this.#search;
    if (prefix !== null && (name.kind !== 'data' || !name.id.startsWith(prefix))) return false;
    if (authors !== null && (author === null || !authors.includes(author))) return false;
    if (sinceMs !== null && timeMs < sinceMs) return false;
    if (untilMs !== null && timeMs >= untilMs) return false;
    return this.#hasPhrases(query, ordinal);
  }

  #hasPhrases({ phrases, excluded }: Query, ordinal: number): boolean {
    if (phrases.length === 0 && excluded.length === 0) return true;
    const positionsOf: PositionsOf = (term) => {
      const list = this.#view.list(term);
      const place = indexOf(list.ordinals, ordinal);
      return place < 0 ? undefined : list.positions(place);
    };
    const has = (phrase: Phrase): boolean => hasPhrase(phrase, positionsOf);
    return phrases.every(has) && !excluded.some(has);
  }
}
