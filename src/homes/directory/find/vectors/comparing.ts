/** Compares the vectors of one search with the searched one: all of a range, or those that a graph proposes. */
import type { Limits } from '../../../../core/settings/limits.js';
import { checkWanted } from '../../../../core/waiting/cancellation.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import type { EntryFacts } from '../../../../find/model.js';
import type { VectorSearch } from '../../../../find/vectors/port.js';
import { MostSimilar, isCovered } from '../../../../find/vectors/similarity.js';
import { documentKey, namesOf } from '../../datastore/rows.js';
import type { RangeOptions } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { ReadyGraph } from './nearest/graphs.js';
import { decodeHead, decodeNumbers, rowsIn, vectorFamilies } from './rows.js';

/** Vectors that are read together: half a millisecond with 1,536 dimensions. */
const vectorsPerRead = 128;
/**
 * Documents that a graph proposes at first, and at most. Among 100 the ten nearest were always found; 1,000 take
 * ten times as long.
 */
const proposedMin = 100;
const proposedMax = 4_000;

interface Compared {
  readonly facts: EntryFacts;
  readonly vector: Float32Array;
}

export class Comparing {
  readonly best: MostSimilar;
  /** The beginnings of the row keys of namespaces with more than `vectorsExactMax` vectors. */
  readonly crowded: Buffer[] = [];
  readonly #store: Store;
  readonly #search: VectorSearch;
  readonly #limits: Limits;
  readonly #slices = new Slices();
  #examined = 0;
  #namespace = '';
  #inNamespace = 0;

  constructor(store: Store, search: VectorSearch, limits: Limits) {
    this.#store = store;
    this.#search = search;
    this.#limits = limits;
    this.best = new MostSimilar(search);
  }

  /** Compares every vector of a range. False: it stopped at `vectorsExaminedMax`. */
  async all(range: RangeOptions): Promise<boolean> {
    for await (const { key, value } of rowsIn(this.#store, vectorFamilies.vectors, range, vectorsPerRead)) {
      checkWanted(this.#search.signal);
      if (this.#examined === this.#limits.vectorsExaminedMax) return false;
      this.#examined += 1;
      const compared = this.#compared(key, value);
      if (compared === undefined) continue;
      this.#count(compared.facts.name.collection);
      if (isCovered(compared.facts, this.#search)) this.best.add(compared.facts, compared.vector);
    }
    return true;
  }

  /** Compares what a graph proposes. False if the search covers too few of that: then all must be compared. */
  async nearest(graph: ReadyGraph): Promise<boolean> {
    const { vector, wanted } = this.#search;
    const first = Math.max(wanted, proposedMin);
    for (const count of [first, Math.min(10 * first, proposedMax)]) {
      if (count > graph.size / 2) return false;
      const covered = await this.#covered(graph.nearest(vector, count));
      if (covered.length < wanted) continue;
      for (const compared of covered) this.best.add(compared.facts, compared.vector);
      return true;
    }
    return false;
  }

  async #covered(keys: readonly Buffer[]): Promise<Compared[]> {
    const covered: Compared[] = [];
    for (let at = 0; at < keys.length; at += vectorsPerRead) {
      checkWanted(this.#search.signal);
      const read = keys.slice(at, at + vectorsPerRead);
      for (const [index, row] of this.#store.getMany(vectorFamilies.vectors, read).entries()) {
        const compared = row && this.#compared(read[index] as Buffer, row);
        if (compared !== undefined && isCovered(compared.facts, this.#search)) covered.push(compared);
      }
      await this.#slices.pause();
    }
    return covered;
  }

  /** Undefined if the row has no vector that can be compared with the searched one. */
  #compared(key: Buffer, row: Buffer): Compared | undefined {
    const { facts, space } = decodeHead(row);
    if (space !== this.#search.space) return undefined;
    const vector = decodeNumbers(row);
    if (vector.length !== this.#search.vector.length) return undefined;
    const { namespace, key: id } = namesOf(key);
    return { facts: { name: { kind: 'data', collection: namespace, id }, ...facts }, vector };
  }

  /** Counts rows of one namespace after the other. */
  #count(namespace: string): void {
    if (namespace !== this.#namespace) [this.#namespace, this.#inNamespace] = [namespace, 0];
    this.#inNamespace += 1;
    if (this.#inNamespace !== this.#limits.vectorsExactMax + 1) return;
    this.crowded.push(documentKey({ user: this.#search.user, namespace }, ''));
  }
}
