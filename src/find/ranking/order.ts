/** The order of results: by score, then newer first, then by name. It is total, so pages never overlap. */
import { compareCodePoints } from '../../datastore/documents/code-point-order.js';
import { type EntryName, type FindKind, type RankedEntry, findKinds } from '../model.js';

const kindOrder = new Map<FindKind, number>(findKinds.map((kind, index) => [kind, index]));

/** The part of a result that its place depends on. */
export type RankedPlace = Pick<RankedEntry, 'score' | 'timeMs' | 'name'>;

/** Negative if `a` comes first. */
export function compareRanked(a: RankedPlace, b: RankedPlace): number {
  return b.score - a.score || b.timeMs - a.timeMs || compareNames(a.name, b.name);
}

export function compareNames(a: EntryName, b: EntryName): number {
  return compareCollections(a, b) || compareCodePoints(a.id, b.id);
}

type Collection = Pick<EntryName, 'kind' | 'collection'>;

export function compareCollections(a: Collection, b: Collection): number {
  return (
    (kindOrder.get(a.kind) as number) - (kindOrder.get(b.kind) as number) ||
    compareCodePoints(a.collection, b.collection)
  );
}

/** Keeps the best results that come after a place. */
export class BestEntries<Item extends RankedPlace> {
  readonly #limit: number;
  readonly #after: RankedPlace | null;
  /** A heap with the worst result first. */
  readonly #heap: Item[] = [];

  constructor(limit: number, after: RankedPlace | null) {
    this.#limit = limit;
    this.#after = after;
  }

  /** A result needs at least this score to be kept. */
  get scoreMin(): number {
    return this.#heap.length < this.#limit ? -Infinity : (this.#heap[0] as Item).score;
  }

  add(item: Item): void {
    if (this.#after !== null && compareRanked(item, this.#after) <= 0) return;
    if (this.#heap.length < this.#limit) {
      this.#heap.push(item);
      this.#up(this.#heap.length - 1);
    } else if (this.#limit > 0 && compareRanked(item, this.#heap[0] as Item) < 0) {
      this.#heap[0] = item;
      this.#down(0);
    }
  }

  /** The kept results, best first. */
  inOrder(): Item[] {
    return this.#heap.toSorted(compareRanked);
  }

  #up(from: number): void {
    const heap = this.#heap;
    for (let at = from; at > 0;) {
      const parent = (at - 1) >> 1;
      if (compareRanked(heap[at] as Item, heap[parent] as Item) <= 0) return;
      [heap[at], heap[parent]] = [heap[parent] as Item, heap[at] as Item];
      at = parent;
    }
  }

  #down(from: number): void {
    const heap = this.#heap;
    for (let at = from; ;) {
      let worst = at;
      for (const child of [2 * at + 1, 2 * at + 2])
        if (child < heap.length && compareRanked(heap[child] as Item, heap[worst] as Item) > 0) worst = child;
      if (worst === at) return;
      [heap[at], heap[worst]] = [heap[worst] as Item, heap[at] as Item];
      at = worst;
    }
  }
}
