/** A wrapper around a real engine that can fail or delay commits. */
import { EventEmitter, once } from 'node:events';
import { StoaError } from '../../../../src/core/errors.js';
import type { EngineName } from '../../../../src/core/settings/store-config.js';
import type {
  CommitOptions,
  Engine,
  EngineStats,
  Entry,
  RangeOptions,
  Snapshot,
  WriteOperation,
} from '../../../../src/homes/directory/kernel/engine.js';

/** How a commit fails: before anything is applied, after all of it, or because of a full disk. */
export type Fault = 'before' | 'after' | 'disk_full';

export class FaultyEngine implements Engine {
  readonly name: EngineName;
  /** How many commits were asked for, those that failed included. */
  commits = 0;
  /** The operations of every commit that was passed on, in order. */
  readonly committed: (readonly WriteOperation[])[] = [];
  /** Scans that were begun, and neither walked to their end nor left. */
  openScans = 0;
  readonly #engine: Engine;
  readonly #faults: Fault[] = [];
  #delayMs = 0;
  #gate: Promise<unknown> | undefined;
  #running: Promise<unknown> = Promise.resolve();

  constructor(engine: Engine) {
    this.#engine = engine;
    this.name = engine.name;
  }

  /** Makes the next commits fail, one for each fault named. */
  failNext(...faults: Fault[]): void {
    this.#faults.push(...faults);
  }

  /** Makes every commit take so much longer, as a slow disk does. */
  delayCommits(milliseconds: number): void {
    this.#delayMs = milliseconds;
  }

  /** Holds back every commit until the returned function is called. */
  holdCommits(): () => void {
    const opened = new EventEmitter();
    this.#gate = once(opened, 'open');
    return () => {
      this.#gate = undefined;
      opened.emit('open');
    };
  }

  commit(operations: readonly WriteOperation[], options?: CommitOptions): Promise<void> {
    const commit = this.#commit(operations, options);
    this.#running = Promise.allSettled([this.#running, commit]);
    return commit;
  }

  async #commit(operations: readonly WriteOperation[], options?: CommitOptions): Promise<void> {
    this.commits += 1;
    const fault = this.#faults.shift();
    await this.#gate;
    if (this.#delayMs > 0) await new Promise((resolve) => setTimeout(resolve, this.#delayMs));
    if (fault === 'disk_full') throw new StoaError('disk_full', 'The disk is full, as the test wants it.');
    if (fault === 'before')
      throw new StoaError('engine', 'The commit failed before it was applied, as the test wants it.');
    await this.#engine.commit(operations, options);
    this.committed.push(operations);
    if (fault === 'after')
      throw new StoaError('engine', 'The commit failed after it was applied, as the test wants it.');
  }

  get(family: string, key: Buffer): Buffer | undefined {
    return this.#engine.get(family, key);
  }

  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[] {
    return this.#engine.getMany(family, keys);
  }

  range(family: string, options: RangeOptions): Iterable<Entry> {
    const scan = this.#engine.range(family, options);
    return { [Symbol.iterator]: () => this.#counted(scan) };
  }

  *#counted(scan: Iterable<Entry>): Generator<Entry, void> {
    this.openScans += 1;
    try {
      yield* scan;
    } finally {
      this.openScans -= 1;
    }
  }

  hasRoom(): boolean {
    return this.#engine.hasRoom();
  }

  snapshot(): Snapshot {
    return this.#engine.snapshot();
  }

  stats(): EngineStats {
    return this.#engine.stats();
  }

  async close(): Promise<void> {
    await this.#running;
    await this.#engine.close();
  }
}
