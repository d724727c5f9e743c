/** What the body of a transaction may do: read through every earlier write, write, announce, set timers. */
import type { Change } from '../../../core/change.js';
import type { Entry, RangeOptions } from './engine.js';

/** Reads that see one consistent state. */
export interface Reader {
  get(family: string, key: Buffer): Buffer | undefined;
  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[];
  /** Lazy; consume it without awaiting in between. */
  range(family: string, options: RangeOptions): Iterable<Entry>;
}

/** Something to do at a time: the sweeper calls the handler registered for `kind`. */
export interface Timer {
  atMs: number;
  kind: string;
  /** Identifies the thing the timer is about; the handler decodes it. */
  reference: Buffer;
}

export interface Transaction extends Reader {
  /** The clock, read once for the whole transaction. */
  readonly nowMs: number;
  put(family: string, key: Buffer, value: Buffer): void;
  delete(family: string, key: Buffer): void;
  /** Adds to what this transaction announces in the change feed. Without any, it takes no sequence number. */
  change(change: Change): void;
  schedule(timer: Timer): void;
  unschedule(timer: Timer): void;
  /** Called once its writes are on disk, before anybody who waited for the same group continues. */
  onDurable(listener: () => void): void;
  /** Called when nothing of it is kept: at once when its body throws, later when its group fails on disk. */
  onUndone(listener: () => void): void;
}
