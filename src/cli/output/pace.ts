/** How fast long work goes, and how long it will still take. */
export interface Work {
  done: number;
  total: number;
}

/** With a smaller share done, an estimate would be meaningless. */
const shareMin = 0.02;

export class Pace {
  readonly #startedAtMs = Date.now();
  /** The work that an earlier run has done. */
  readonly #before: number;

  constructor(before = 0) {
    this.#before = before;
  }

  /** `secondsLeft` is null as long as it cannot be known. */
  at({ done, total }: Work): { share: number; perSecond: number; secondsLeft: number | null } {
    const seconds = (Date.now() - this.#startedAtMs) / 1000;
    const perSecond = seconds === 0 ? 0 : (done - this.#before) / seconds;
    const share = total > 0 ? Math.min(1, done / total) : 0;
    const isKnown = perSecond > 0 && done - this.#before > shareMin * (total - this.#before);
    return { share, perSecond, secondsLeft: isKnown ? Math.ceil((total - done) / perSecond) : null };
  }
}
