/** A count that is taken again only when it is worth the work. */

/** A count is used for this many times the time that it took, so counting takes at most 2 % of the time. */
const restFactor = 50;

/** Counts on request, but not so often that counting costs too much. */
export class Paced<Counted> {
  readonly #count: () => Promise<Counted>;
  readonly #restMsMin: number;
  #last: Counted | undefined;
  #restsUntilMs = 0;
  #counting: Promise<Counted> | undefined;

  /** A count is used for at least `restMsMin`. */
  constructor(count: () => Promise<Counted>, restMsMin = 5_000) {
    this.#count = count;
    this.#restMsMin = restMsMin;
  }

  async read(): Promise<Counted> {
    if (this.#last !== undefined && performance.now() < this.#restsUntilMs) return this.#last;
    return (this.#counting ??= this.#begin().finally(() => (this.#counting = undefined)));
  }

  async #begin(): Promise<Counted> {
    const startedMs = performance.now();
    this.#last = await this.#count();
    const endedMs = performance.now();
    this.#restsUntilMs = endedMs + Math.max(this.#restMsMin, restFactor * (endedMs - startedMs));
    return this.#last;
  }
}
