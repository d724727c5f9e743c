/** A group: the transactions that share one commit and one fsync. */
import type { StoaError } from '../../../core/errors.js';
import type { Commit } from '../../../feed/port.js';
import type { RedoTransaction } from './feed/log.js';
import type { PendingWrite } from './open-transaction.js';
import { Overlay } from './overlay.js';

/** A caller that waits until the group is durable. `resolve` gets the result of `outcome`. */
interface Waiting {
  outcome: () => unknown;
  resolve: (result: unknown) => void;
  reject: (error: unknown) => void;
  onFailed: ((error: StoaError) => void) | undefined;
}

export class Group {
  readonly overlay = new Overlay<PendingWrite>();
  readonly transactions: RedoTransaction[] = [];
  /** Whether every transaction makes room. */
  frees = true;
  readonly commits: Commit[] = [];
  /** The text of each of `commits`, as both logs contain it. */
  readonly commitTexts: string[] = [];
  /** Groups of another shard that must be durable before this one. */
  readonly earlier: Promise<void>[] = [];
  /** Why this group will fail, if one of `earlier` has failed. */
  doomed: StoaError | undefined;
  #isDecided = false;
  #undecided = 0;
  /** How many of the transactions are in an intent of shard 00. */
  #inIntents = 0;
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

  /** Whether another shard has decided that this group must be written, or may still decide it. */
  get mayBeDecided(): boolean {
    return this.#isDecided || this.#undecided > 0;
  }

  /**
   * This group is written after a group of another shard, and fails with it. `wait` calls back at once when
   * that group is durable or has failed.
   */
  follow(wait: (onDurable: () => void, onFailed: (error: StoaError) => void) => Promise<void>): void {
    this.#undecided += 1;
    const earlier = wait(
      () => {
        this.#undecided -= 1;
        this.#isDecided = true;
      },
      (error) => {
        this.#undecided -= 1;
        this.doomed = error;
      },
    );
    this.earlier.push(earlier);
    // The commit of this group waits for it. If that fails earlier, this failure needs no other handler.
    earlier.catch(() => undefined);
  }

  /** The transactions that no intent contains yet. The caller puts them into one. */
  takeForIntent(): RedoTransaction[] {
    const taken = this.transactions.slice(this.#inIntents);
    this.#inIntents = this.transactions.length;
    return taken;
  }

  /** The writes are in the overlay already. */
  add(transaction: RedoTransaction, commitText: string | undefined, frees: boolean): void {
    this.transactions.push(transaction);
    this.frees &&= frees;
    if (transaction.commit === null || commitText === undefined) return;
    this.commits.push(transaction.commit);
    this.commitTexts.push(commitText);
    this.#textBytes += commitText.length;
  }

  /**
   * Resolves with `outcome` when the group is durable. A refusal waits too, because it may depend on writes
   * of the group.
   */
  wait<T>(outcome: () => T, onFailed?: (error: StoaError) => void): Promise<T> {
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

  fail(error: StoaError): void {
    for (const { reject, onFailed } of this.#waiting) {
      onFailed?.(error);
      reject(error);
    }
  }
}
