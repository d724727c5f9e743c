/**
 * Runs work on the same key one after another within this process, so that a read and the write after it are
 * not interleaved.
 */

export class KeyQueue {
  readonly #tails = new Map<string, Promise<unknown>>();

  run<T>(id: string, work: () => Promise<T>): Promise<T> {
    return this.runAll([id], work);
  }

  /**
   * Work on several keys. It takes its place in all queues in one turn, so two such works never wait for each
   * other.
   */
  async runAll<T>(ids: readonly string[], work: () => Promise<T>): Promise<T> {
    // A failure is reported to its own caller; the next work in the queue starts in any case.
    const mine = Promise.allSettled(ids.map((id) => this.#tails.get(id))).then(work);
    for (const id of ids) this.#tails.set(id, mine);
    try {
      return await mine;
    } finally {
      for (const id of ids) if (this.#tails.get(id) === mine) this.#tails.delete(id);
    }
  }

  /** Whether work on one of the keys has not ended. */
  has(ids: readonly string[]): boolean {
    return ids.some((id) => this.#tails.has(id));
  }

  /** Resolves when all work that was given so far has ended. */
  async ended(): Promise<void> {
    await Promise.allSettled(this.#tails.values());
  }
}
