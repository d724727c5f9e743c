/** Functions that are called with each event, until they are removed. */
export class Listeners<Told> {
  readonly #listeners = new Set<(told: Told) => void>();

  /** Returns a function that stops it. */
  add(listener: (told: Told) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  tell(told: Told): void {
    for (const listener of this.#listeners) listener(told);
  }
}
