/**
 * Runs work on the same key one after another within this process, so that a read and the write after it are
 * not interleaved.
 */

export class KeyQueue {
  readonly #tails = new Map<string, Promise<unknown>>();

  async run<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(id) ?? Promise.resolve();
    // A failure is reported to its own caller; the next work in the queue starts in any case.
    const mine = before.then(work, work);
    this.#tails.set(id, mine);
    try {
      return await mine;
    } finally {
      if (this.#tails.get(id) === mine) this.#tails.delete(id);
    }
  }

  /** Resolves when all work that was given so far has ended. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#tails.values());
  }
}
