/**
 * The graphs of this server, in memory only. A search that compares many vectors of a namespace asks for a
 * graph. The graph is made from the rows in the background, and follows every write of a vector. The rows are
 * the truth: a graph that is missing costs time and nothing else.
 */
import type { Limits } from '../../../../../core/settings/limits.js';
import { KeyQueue } from '../../../../../core/waiting/key-queue.js';
import { Periodic } from '../../../../../core/waiting/periodic.js';
import { Slices, nextTurn } from '../../../../../core/waiting/yielding.js';
import { type WriteOperation, prefixRange } from '../../../kernel/engine.js';
import type { Kernel } from '../../../kernel/kernel.js';
import type { Store } from '../../../kernel/store.js';
import { decodeHead, decodeNumbers, rowsIn, vectorFamilies } from '../rows.js';
import { VectorGraph } from './graph.js';
import { type LoadedUsearch, loadUsearch } from './usearch.js';

export interface VectorGraphsOptions {
  readonly kernel: Kernel;
  readonly onError: (error: unknown, about: string) => void;
}

/** A namespace whose nearest vectors are wanted. */
export interface GraphedNamespace {
  readonly store: Store;
  /** The beginning of its row keys, with the 0. */
  readonly partition: Buffer;
  readonly space: string;
  readonly dimensions: number;
}

export interface ReadyGraph {
  readonly partition: Buffer;
  /** The vectors in it. */
  readonly size: number;
  /** The row keys of about so many of the nearest, and of all that the graph does not have yet. */
  nearest(vector: Float32Array, count: number): Buffer[];
}

/** Namespaces that have a graph or wait for one, and those that cannot have one for a while. */
const namespacesMax = 1_000;
/**
 * A graph that was used within this time is not dropped for another one, and a namespace whose graph has no room
 * asks again after this time. Otherwise two large namespaces would take turns.
 */
const spareMs = 600_000;
const lookMsMax = 60_000;
/** Rows that are read together: with 1,536 dimensions 0.2 MB. */
const rowsPerRead = 32;

class Held {
  readonly of: GraphedNamespace;
  readonly graph: VectorGraph;
  /** Rows that were written and that the graph has not read since. Searches compare them one by one. */
  readonly written = new Set<string>();
  isReady = false;
  usedAtMs = performance.now();
  working: Promise<void> | undefined;

  constructor(of: GraphedNamespace, graph: VectorGraph) {
    this.of = of;
    this.graph = graph;
  }
}

export class VectorGraphs {
  readonly #options: VectorGraphsOptions;
  readonly #limits: Limits;
  readonly #held = new Map<string, Held>();
  /** Namespaces that cannot have a graph until a time. */
  readonly #refused = new Map<string, number>();
  /** One graph is made at a time. */
  readonly #making = new KeyQueue();
  readonly #looks: Periodic;
  #loading: Promise<LoadedUsearch> | undefined;
  #stops: (() => void)[] = [];
  #bytes = 0;
  #isClosed = false;

  constructor(options: VectorGraphsOptions) {
    this.#options = options;
    this.#limits = options.kernel.limits;
    this.#looks = new Periodic({
      everyMs: Math.min(lookMsMax, this.#limits.vectorGraphIdleSeconds * 500),
      run: async () => this.#dropUnused(),
      onError: (error) => options.onError(error, 'dropping unused graphs of vectors'),
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#looks.close();
    for (const stop of this.#stops) stop();
    await Promise.all(Array.from(this.#held.values(), ({ working }) => working));
    this.#held.clear();
  }

  /** The package is loaded when it is first asked for. */
  load(): Promise<LoadedUsearch> {
    return (this.#loading ??= loadUsearch());
  }

  /**
   * The graphs that are ready among the namespaces whose row keys begin so, or the one of the namespace that a
   * longer beginning names, in the order of their keys.
   */
  ready(beginning: Buffer, space: string): ReadyGraph[] {
    const found: ReadyGraph[] = [];
    for (const held of this.#held.values()) {
      const { partition } = held.of;
      const shared = Math.min(partition.length, beginning.length);
      const isAsked = partition.subarray(0, shared).equals(beginning.subarray(0, shared));
      if (!isAsked || !held.isReady || held.of.space !== space) continue;
      held.usedAtMs = performance.now();
      found.push({
        partition,
        size: held.graph.size + held.written.size,
        nearest: (vector, count) => {
          const names = held.graph.nearest(vector, count);
          return [...names, ...held.written].map((name) => Buffer.from(name, 'latin1'));
        },
      });
    }
    return found.toSorted((a, b) => a.partition.compare(b.partition));
  }

  /** Makes a graph in the background, for the next searches of a namespace. */
  async want(of: GraphedNamespace): Promise<void> {
    const loaded = await this.load();
    const name = of.partition.toString('latin1');
    const known = this.#held.get(name);
    // Vectors of another model have replaced those of the graph.
    if (known !== undefined && known.of.space !== of.space) this.#drop(known);
    else if (known !== undefined) return;
    if (!('usearch' in loaded) || this.#isClosed || this.#isRefused(name)) return;
    if (this.#held.size >= namespacesMax) return;
    if (this.#stops.length === 0) this.#start();
    const held = new Held(of, new VectorGraph(loaded.usearch, of.dimensions));
    this.#held.set(name, held);
    this.#begin(held);
  }

  #start(): void {
    const { stores } = this.#options.kernel;
    this.#stops = stores.map((store) => store.onWritten((writes) => this.#follow(writes)));
    this.#looks.start();
  }

  /** Called before the writers continue, so a search after a write sees it. */
  #follow(writes: readonly WriteOperation[]): void {
    if (this.#held.size === 0) return;
    for (const { family, key } of writes) {
      if (family !== vectorFamilies.vectors) continue;
      const held = this.#held.get(key.toString('latin1', 0, key.indexOf(0, 32) + 1));
      if (held === undefined) continue;
      const name = key.toString('latin1');
      held.graph.forget(name);
      held.written.add(name);
      // The graph falls behind. A later search asks for a new one.
      if (held.written.size > this.#limits.vectorsExactMax) this.#drop(held);
      else this.#begin(held);
    }
  }

  #begin(held: Held): void {
    held.working ??= this.#keep(held).finally(() => {
      held.working = undefined;
      if (this.#isHeld(held) && held.written.size > 0) this.#begin(held);
    });
  }

  async #keep(held: Held): Promise<void> {
    try {
      // A row that was just written is readable in the next turn.
      await nextTurn(true);
      if (!held.isReady) await this.#making.run('', () => this.#make(held));
      await this.#takeWritten(held);
    } catch (error) {
      this.#refuse(held);
      this.#options.onError(error, 'making a graph of vectors (searches compare vectors one by one)');
    }
  }

  async #make(held: Held): Promise<void> {
    const { store, partition } = held.of;
    const slices = new Slices({ isBackground: () => true });
    const range = prefixRange(partition);
    for await (const { key, value } of rowsIn(store, vectorFamilies.vectors, range, rowsPerRead)) {
      if (!this.#isHeld(held)) return;
      this.#put(held, key.toString('latin1'), value);
      await slices.pause();
    }
    held.isReady = true;
  }

  async #takeWritten(held: Held): Promise<void> {
    const { store } = held.of;
    const slices = new Slices({ isBackground: () => true });
    for (const name of held.written) {
      if (!this.#isHeld(held)) return;
      const row = store.get(vectorFamilies.vectors, Buffer.from(name, 'latin1'));
      if (row === undefined) held.graph.forget(name);
      else this.#put(held, name, row);
      held.written.delete(name);
      await slices.pause();
    }
    // Comparing few vectors takes less time, and a graph of many removed ones finds less.
    const { size, held: all } = held.graph;
    if (size < this.#limits.vectorsExactMax / 2 || all > 2 * size) this.#drop(held);
  }

  #put(held: Held, name: string, row: Buffer): void {
    const { graph } = held;
    const before = graph.bytes;
    if (decodeHead(row).space === held.of.space) graph.put(name, decodeNumbers(row));
    else graph.forget(name);
    if (!this.#isHeld(held)) return;
    this.#bytes += graph.bytes - before;
    if (this.#bytes > this.#limits.vectorGraphBytesMax) this.#makeRoom(held);
  }

  /** Drops graphs that were not used for some time, the oldest first. Without them, this one has no room. */
  #makeRoom(held: Held): void {
    const unused = [...this.#held.values()]
      .filter((other) => other !== held && performance.now() - other.usedAtMs > spareMs)
      .toSorted((a, b) => b.usedAtMs - a.usedAtMs);
    while (this.#bytes > this.#limits.vectorGraphBytesMax) {
      const oldest = unused.pop();
      if (oldest === undefined) return this.#refuse(held);
      this.#drop(oldest);
    }
  }

  #dropUnused(): void {
    const now = performance.now();
    const idleMs = this.#limits.vectorGraphIdleSeconds * 1_000;
    for (const held of this.#held.values()) if (now - held.usedAtMs > idleMs) this.#drop(held);
    for (const name of this.#refused.keys()) this.#isRefused(name);
  }

  #isRefused(name: string): boolean {
    const untilMs = this.#refused.get(name) ?? 0;
    if (performance.now() < untilMs) return true;
    this.#refused.delete(name);
    return false;
  }

  #refuse(held: Held): void {
    this.#drop(held);
    if (this.#refused.size < namespacesMax)
      this.#refused.set(held.of.partition.toString('latin1'), performance.now() + spareMs);
  }

  #drop(held: Held): void {
    if (!this.#isHeld(held)) return;
    this.#held.delete(held.of.partition.toString('latin1'));
    this.#bytes -= held.graph.bytes;
  }

  /** False once it was dropped, also while it is being made. */
  #isHeld(held: Held): boolean {
    return !this.#isClosed && this.#held.get(held.of.partition.toString('latin1')) === held;
  }
}
