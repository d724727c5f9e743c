/** A group: the transactions that share one commit and one fsync. */
import type { WriteOperation } from './engine.js';
import type { Commit, RedoTransaction } from './log.js';
import { Overlay } from './overlay.js';

export class Group {
  readonly overlay = new Overlay();
  readonly transactions: RedoTransaction[] = [];
  readonly commits: Commit[] = [];
  /** Each of `commits` as both logs write it. */
  readonly commitTexts: string[] = [];
  readonly #waiting: { settle: () => void; fail: (error: Error) => void }[] = [];

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

  add(transaction: RedoTransaction, commitText: string | undefined, writes: Iterable<[string, WriteOperation]>): void {
    for (const [key, operation] of writes) this.overlay.set(key, operation);
    this.transactions.push(transaction);
    if (transaction.commit === null || commitText === undefined) return;
    this.commits.push(transaction.commit);
    this.commitTexts.push(commitText);
    this.#textBytes += commitText.length;
  }

  /** Resolves with `outcome` once the group is durable: also a refusal may rest on what others wrote in it. */
  wait<T>(outcome: () => T): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#waiting.push({
        settle: () => {
          try {
            resolve(outcome());
          } catch (error) {
            reject(error);
          }
        },
        fail: reject,
      });
    });
  }

  settle(): void {
    for (const { settle } of this.#waiting) settle();
  }

  fail(error: Error): void {
    for (const { fail } of this.#waiting) fail(error);
  }
}
