/** Reports the first of several failures in a row: an outage is one line in the log. */
export class FirstFailures {
  readonly #report: (error: unknown) => void;
  #isFailing = false;

  constructor(report: (error: unknown) => void) {
    this.#report = report;
  }

  /** True if the last work failed. */
  get isFailing(): boolean {
    return this.#isFailing;
  }

  /** Runs the work. It never throws. */
  async run(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#report(error);
      this.#isFailing = true;
    }
  }
}
