/** Removes expired documents in the background, where the database does not do it. */
import type { Limits } from '../core/settings/limits.js';
import type { DataPort } from './port.js';

const sweepIntervalMs = 60_000;

export class ExpirySweep {
  readonly #port: DataPort;
  readonly #limits: Limits;
  readonly #onError: (error: unknown, about: string) => void;
  #timer: NodeJS.Timeout | undefined;
  /** The sweep that is under way. */
  #sweep: Promise<void> | undefined;
  #isClosing = false;

  constructor(port: DataPort, limits: Limits, onError: (error: unknown, about: string) => void) {
    this.#port = port;
    this.#limits = limits;
    this.#onError = onError;
  }

  start(): void {
    if (this.#port.sweepExpired === undefined) return;
    this.#timer ??= setInterval(() => {
      // One at a time, so that sweeps do not pile up while a database hangs.
      this.#sweep ??= this.#sweepAll().finally(() => (this.#sweep = undefined));
    }, sweepIntervalMs);
    this.#timer.unref();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    await this.#sweep;
  }

  async #sweepAll(): Promise<void> {
    const { clearStepMax } = this.#limits;
    try {
      if ((await this.#port.takeSweepTurn?.(sweepIntervalMs)) === false) return;
      while (!this.#isClosing && (await this.#port.sweepExpired?.(clearStepMax)) === clearStepMax);
    } catch (error) {
      this.#onError(error, 'sweeping expired documents');
    }
  }
}
