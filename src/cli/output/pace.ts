/** How fast long work goes, and how long it will still take. */
export interface Work {
  done: number;
  total: number;
}

/** Only the last five to ten seconds count: records of one kind take longer than those of another. */
const windowMs = 5_000;
/** With less time behind it, an estimate would be meaningless. */
const knownAfterMs = 1_000;

interface Sample {
  atMs: number;
  done: number;
}

export class Pace {
  /** Where the time that counts begins. */
  #from: Sample;
  /** Becomes the beginning when it is older than the window. */
  #next: Sample;

  /** `before` is the work that an earlier run has done. */
  constructor(before = 0) {
    this.#from = this.#next = { atMs: Date.now(), done: before };
  }

  /** `secondsLeft` is null as long as it cannot be known. */
  at({ done, total }: Work): { share: number; perSecond: number; secondsLeft: number | null } {
    const nowMs = Date.now();
    if (nowMs - this.#next.atMs >= windowMs) {
      this.#from = this.#next;
      this.#next = { atMs: nowMs, done };
    }
    const elapsedMs = nowMs - this.#from.atMs;
    const perSecond = elapsedMs === 0 ? 0 : ((done - this.#from.done) / elapsedMs) * 1_000;
    const share = total > 0 ? Math.min(1, done / total) : 0;
    const isKnown = perSecond > 0 && elapsedMs >= knownAfterMs;
    return { share, perSecond, secondsLeft: isKnown ? Math.ceil((total - done) / perSecond) : null };
  }
}
