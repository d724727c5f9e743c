/** How fast long work goes, and how long it will still take. */
export interface Work {
  done: number;
  total: number;
}

/** With less than this share done, an estimate says nothing. */
const shareMin = 0.02;

export class Pace {
  readonly #startedAtMs = Date.now();
  /** What was done before: work that goes on does not begin at nothing. */
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
