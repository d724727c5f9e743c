/** What a store is opened with, and who is called when a transaction or a group ends. */
import type { Limits } from '../../../core/settings/limits.js';
import type { Commit } from '../../../feed/port.js';
import type { Engine, WriteOperation } from './engine.js';

export interface StoreOptions {
  engine: Engine;
  /** Every family that transactions may name; in any order. */
  families: readonly string[];
  limits: Limits;
  /** Milliseconds since 1970. Tests pass another clock. */
  clock?: () => number;
  /** Called for each group that became durable, for metrics. */
  onGroup?: (group: GroupFacts) => void;
}

export interface GroupFacts {
  transactions: number;
  operations: number;
  sizeBytes: number;
  /** Time from handing the group to the engine until it was on disk. */
  commitMs: number;
}

export type CommitListener = (commits: readonly Commit[]) => void;

/** Called with the writes of a group once it is durable, before the callers who waited for it continue. */
export type WriteListener = (operations: readonly WriteOperation[]) => void;

/**
 * Called when a transaction begins. The function that it returns is called when the transaction is durable,
 * or with its failure.
 */
export type TransactListener = () => ((failure?: unknown) => void) | undefined;

/**
 * A fault of a listener is reported as uncaught, and changes nothing for the store or for other listeners.
 */
export function callApart(listener: () => void): void {
  try {
    listener();
  } catch (error) {
    setImmediate(() => {
      throw error;
    });
  }
}
