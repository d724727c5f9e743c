/** When marks are filed and segments joined: after enough writes, and in time for deleted text to leave. */
import type { Limits } from '../../../../core/settings/limits.js';
import { KeyQueue } from '../../../../core/waiting/key-queue.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import { keyAfterPrefix } from '../../kernel/engine.js';
import type { WriteOperation } from '../../kernel/engine.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Store } from '../../kernel/store.js';
import type { Filing } from './filing.js';
import { markedAtMs, readMarks } from './marks.js';
import { findFamilies, partitionBytes } from '../rows.js';

export interface FilingWorkOptions {
  readonly kernel: Kernel;
  readonly filing: Filing;
  readonly limits: Limits;
  readonly onError: (error: unknown, about: string) => void;
}

/** Pauses between looks for old marks and expired entries. */
const lookMsMin = 1_000;
const lookMsMax = 60_000;

interface Waiting {
  readonly store: Store;
  readonly partition: Buffer;
  marks: number;
}

export class FilingWork {
  readonly #options: FilingWorkOptions;
  /** Partitions with marks, by their bytes. The counts are a hint: a mark that is written twice counts twice. */
  readonly #waiting = new Map<string, Waiting>();
  readonly #due = new Set<string>();
  #stops: (() => void)[] = [];
  #running: Promise<void> | undefined;
  /** By partition. */
  readonly #queue = new KeyQueue();
  /** Partitions whose segments are being joined, or will be, which may take long: how many calls wait for it. */
  readonly #merging = new Map<string, number>();
  /** Partitions whose filing a search waits for, so it is not background work: how many searches. */
  readonly #awaited = new Map<string, number>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(options: FilingWorkOptions) {
    this.#options = options;
  }

  start(): void {
    const { kernel } = this.#options;
    this.#stops = kernel.stores.map((store) => store.onWritten((writes) => this.#follow(store, writes)));
    this.#plan(0);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    for (const stop of this.#stops) stop();
    await this.#running;
    await this.#queue.ended();
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Files the first marks of a partition. Nothing else changes its segments meanwhile. */
  file(store: Store, partition: Buffer): ReturnType<Filing['file']> {
    const name = partition.toString('latin1');
    const isBackground = (): boolean => !this.#awaited.has(name);
    return this.#queue.run(name, () =>
      this.#options.filing.file(store, partition, new Slices({ isBackground })),
    );
  }

  /** Files the first marks of a partition for a search that waits, unless its segments are being joined. */
  async fileUnlessMerging(store: Store, partition: Buffer): Promise<boolean> {
    const name = partition.toString('latin1');
    if (this.#isClosed || this.#merging.has(name)) return false;
    await counted(this.#awaited, name, () => this.file(store, partition));
    return true;
  }

  /** Joins the segments that should be one. False if there are none. */
  merge(store: Store, partition: Buffer): Promise<boolean> {
    const name = partition.toString('latin1');
    return counted(this.#merging, name, () =>
      this.#queue.run(name, () => this.#options.filing.merge(store, partition)),
    );
  }

  /** Files every mark and joins what is due, for tests and before a measurement. */
  async settle(): Promise<void> {
    const { kernel } = this.#options;
    for (const store of kernel.stores)
      for (const partition of partitionsIn(store, findFamilies.marks))
        while ((await this.file(store, partition)).filed > 0) continue;
    for (const store of kernel.stores)
      for (const partition of partitionsIn(store, findFamilies.segments))
        while (await this.merge(store, partition)) continue;
  }

  #follow(store: Store, writes: readonly WriteOperation[]): void {
    for (const { family, key, value } of writes) {
      if (family !== findFamilies.marks || value === undefined) continue;
      const name = key.toString('latin1', 0, partitionBytes);
      let waiting = this.#waiting.get(name);
      if (waiting === undefined) {
        waiting = { store, partition: Buffer.from(key.subarray(0, partitionBytes)), marks: 0 };
        this.#waiting.set(name, waiting);
      }
      waiting.marks += 1;
      if (waiting.marks >= this.#options.limits.findWaitingMax) this.#due.add(name);
    }
    if (this.#due.size > 0) this.#begin();
  }

  #begin(): void {
    if (this.#running !== undefined || this.#isClosed) return;
    this.#running = this.#run().finally(() => {
      this.#running = undefined;
      if (this.#due.size > 0) this.#begin();
    });
  }

  async #run(): Promise<void> {
    for (const name of this.#due) {
      if (this.#isClosed) return;
      const waiting = this.#waiting.get(name);
      if (waiting !== undefined) {
        const { store, partition } = waiting;
        waiting.marks = 0;
        const isDone = await this.#attempt(async () => {
          // Everything that waits, but not one small segment after the other while writes continue.
          while (!this.#isClosed && (await this.file(store, partition)).isMore) continue;
          while (!this.#isClosed && (await this.merge(store, partition))) continue;
        });
        if (!isDone) this.#plan(lookMsMin);
      }
      // Also after an error: the next look finds the marks again.
      this.#due.delete(name);
    }
  }

  /** A partition that cannot be filed is reported, and does not keep the others waiting. */
  async #attempt(work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      if (!this.#isClosed)
        this.#options.onError(error, 'filing words for the search (they are found all the same)');
      return false;
    }
  }

  #plan(afterMs: number): void {
    if (this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#look(), afterMs);
    this.#timer.unref();
  }

  /** Finds partitions with many or old marks, and with segments that are due. */
  async #look(): Promise<void> {
    const { kernel, limits } = this.#options;
    const oldMs = (limits.findDeadSecondsMax * 1000) / 2;
    const slices = new Slices();
    for (const store of kernel.stores)
      await this.#attempt(async () => {
        for (const partition of partitionsIn(store, findFamilies.marks)) {
          const marks = readMarks(store, partition, limits.findWaitingMax);
          const isOld = marks.some(({ stamp }) => store.nowMs() - markedAtMs(stamp) >= oldMs);
          const name = partition.toString('latin1');
          this.#waiting.set(name, { store, partition, marks: marks.length });
          if (isOld || marks.length >= limits.findWaitingMax) this.#due.add(name);
          await slices.pause();
          if (this.#isClosed) return;
        }
        for (const partition of partitionsIn(store, findFamilies.segments)) {
          if (this.#isClosed) return;
          await this.#attempt(async () => {
            while (!this.#isClosed && (await this.merge(store, partition))) continue;
          });
        }
      });
    if (this.#due.size > 0) this.#begin();
    this.#plan(Math.max(lookMsMin, Math.min(lookMsMax, oldMs / 2)));
  }
}

/** Counts a call under its name while it runs. */
async function counted<Result>(
  calls: Map<string, number>,
  name: string,
  call: () => Promise<Result>,
): Promise<Result> {
  calls.set(name, (calls.get(name) ?? 0) + 1);
  try {
    return await call();
  } finally {
    const left = (calls.get(name) ?? 1) - 1;
    if (left === 0) calls.delete(name);
    else calls.set(name, left);
  }
}

/** The partitions that have rows in a family: one look-up for each. */
export function* partitionsIn(store: Store, family: string): Generator<Buffer> {
  let from: Buffer | undefined = Buffer.alloc(1);
  while (from !== undefined) {
    const [row] = [...store.range(family, { gte: from, limit: 1 })];
    if (row === undefined) return;
    const partition = Buffer.from(row.key.subarray(0, partitionBytes));
    yield partition;
    from = keyAfterPrefix(partition);
  }
}
