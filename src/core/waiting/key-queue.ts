/** Lines up work on the same key within this process: nobody looks while another is between looking and writing. */

export class KeyQueue {
  readonly #tails = new Map<string, Promise<unknown>>();

  async run<T>(id: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(id) ?? Promise.resolve();
    // One's failure is its own caller's; the next in line starts all the same.
    const mine = before.then(work, work);
    this.#tails.set(id, mine);
    try {
      return await mine;
    } finally {
      if (this.#tails.get(id) === mine) this.#tails.delete(id);
    }
  }
}
