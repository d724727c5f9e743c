/** Background work that runs again and again: one run at a time, and an outage is reported once. */
import { FirstFailures } from './first-failures.js';

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
  readonly #failures: FirstFailures;

  constructor(options: PeriodicOptions) {
    this.#options = options;
    this.#failures = new FirstFailures(options.onError);
  }

  /** The first run starts after the interval. */
  start(): void {
    this.#timer ??= setInterval(() => this.runSoon(), this.#options.everyMs);
    this.#timer.unref();
  }

  /** Starts a run now, unless one is running. */
  runSoon(): void {
    this.#running ??= this.#failures.run(this.#options.run).finally(() => (this.#running = undefined));
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
}
