/** A group: the transactions that share one commit and one fsync. */
import type { Commit } from '../../../feed/port.js';
import type { RedoTransaction } from './feed/log.js';
import type { PendingWrite } from './open-transaction.js';
import { Overlay } from './overlay.js';

/** A caller that waits until the group is durable. `resolve` gets the result of `outcome`. */
interface Waiting {
  outcome: () => unknown;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  onFailed: (() => void) | undefined;
}

export class Group {
  readonly overlay = new Overlay<PendingWrite>();
  readonly transactions: RedoTransaction[] = [];
  readonly commits: Commit[] = [];
  /** The text of each of `commits`, as both logs contain it. */
  readonly commitTexts: string[] = [];
  /** Groups of another shard that must be durable before this one. */
  readonly earlier: Promise<void>[] = [];
  /** True when all of `earlier` are durable: another shard has decided that this group must be written. */
  isDecided = false;
  readonly #waiting: Waiting[] = [];
  #textBytes = 0;

  /** Bytes that wait in memory and go to the disk together. */
  get sizeBytes(): number {
    return this.overlay.sizeBytes + this.#textBytes;
  }

  get isEmpty(): boolean {
    return this.transactions.length === 0 && this.#waiting.length === 0;
  }

  /** How many callers wait for this group. */
  get size(): number {
    return this.#waiting.length;
  }

  /** The writes are in the overlay already. */
  add(transaction: RedoTransaction, commitText: string | undefined): void {
    this.transactions.push(transaction);
    if (transaction.commit === null || commitText === undefined) return;
    this.commits.push(transaction.commit);
    this.commitTexts.push(commitText);
    this.#textBytes += commitText.length;
  }

  /**
   * Resolves with `outcome` when the group is durable. A refusal waits too, because it may depend on writes
   * of the group.
   */
  wait<T>(outcome: () => T, onFailed?: () => void): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({ outcome, resolve: resolve as (result: unknown) => void, reject, onFailed });
    });
  }

  settle(): void {
    for (const { outcome, resolve, reject } of this.#waiting) {
      try {
        resolve(outcome());
      } catch (error) {
        reject(error);
      }
    }
  }

  fail(error: Error): void {
    for (const { reject, onFailed } of this.#waiting) {
      onFailed?.();
      reject(error);
    }
  }
}
