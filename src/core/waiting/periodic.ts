/** Background work that runs again and again: one run at a time, and an outage is reported once. */

export interface PeriodicOptions {
  readonly everyMs: number;
  readonly run: () => Promise<void>;
  /** Called for the first of several failed runs. */
  readonly onError: (error: unknown) => void;
}

export class Periodic {
  readonly #options: PeriodicOptions;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #isFailing = false;

  constructor(options: PeriodicOptions) {
    this.#options = options;
  }

  /** The first run starts after the interval. */
  start(): void {
    this.#timer ??= setInterval(() => this.runSoon(), this.#options.everyMs);
    this.#timer.unref();
  }

  /** Starts a run now, unless one is running. */
  runSoon(): void {
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
  }

  /** Resolves after a run that begins now, or when the current one has ended. */
  async runNow(): Promise<void> {
    await this.#running;
    this.runSoon();
    await this.#running;
  }

  /** Ends the timer and waits for the current run. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#running;
  }

  async #run(): Promise<void> {
    try {
      await this.#options.run();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.onError(error);
      this.#isFailing = true;
    }
  }
}
