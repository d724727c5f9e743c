/**
 * What the body of a transaction may do: read, including every earlier write, write, announce changes and set
 * timers.
 */
import type { Change } from '../../../core/change.js';
import type { Entry, RangeOptions } from './engine.js';

/** Reads that see one consistent state. */
export interface Reader {
  get(family: string, key: Buffer): Buffer | undefined;
  getMany(family: string, keys: readonly Buffer[]): (Buffer | undefined)[];
  /** Lazy; consume it without awaiting in between. */
  range(family: string, options: RangeOptions): Iterable<Entry>;
}

/** A timer. The sweeper calls the handler registered for `kind`. */
export interface Timer {
  atMs: number;
  kind: string;
  /** Identifies the record of the timer; the handler decodes it. */
  reference: Buffer;
}

export interface Transaction extends Reader {
  /** The clock, read once for the whole transaction. */
  readonly nowMs: number;
  /** The agent that the changes are announced for. */
  agent: string | null;
  /** The end of the longest lease that this transaction gave to `agent`, or 0. */
  heldUntilMs: number;
  /** Set by whatever removes stored records: the transaction may use the reserve of a full disk. */
  removesRecords: boolean;
  put(family: string, key: Buffer, value: Buffer): void;
  delete(family: string, key: Buffer): void;
  /** Announces changes in the feed. A transaction without changes gets no sequence number. */
  change(change: Change): void;
  schedule(timer: Timer): void;
  unschedule(timer: Timer): void;
  /** Called when its writes are on disk, before callers who waited for the same group continue. */
  onDurable(listener: () => void): void;
  /** Called when its writes are lost: at once if its body throws, later if its group fails on disk. */
  onUndone(listener: () => void): void;
}
