/** Removes expired documents in the background, if the database does not do it. */
import type { Limits } from '../core/settings/limits.js';
import { Periodic } from '../core/waiting/periodic.js';
import type { DataPort } from './port.js';

const sweepIntervalMs = 60_000;

export class ExpirySweep {
  readonly #port: DataPort;
  readonly #limits: Limits;
  readonly #sweeping: Periodic;
  #isClosing = false;

  constructor(port: DataPort, limits: Limits, onError: (error: unknown, about: string) => void) {
    this.#port = port;
    this.#limits = limits;
    this.#sweeping = new Periodic({
      everyMs: sweepIntervalMs,
      run: () => this.#sweepAll(),
      onError: (error) => onError(error, 'sweeping expired documents'),
    });
  }

  start(): void {
    if (this.#port.sweepExpired !== undefined) this.#sweeping.start();
  }

  close(): Promise<void> {
    this.#isClosing = true;
    return this.#sweeping.close();
  }

  async #sweepAll(): Promise<void> {
    const { clearStepMax } = this.#limits;
    if ((await this.#port.takeSweepTurn?.(sweepIntervalMs)) === false) return;
    while (!this.#isClosing && (await this.#port.sweepExpired?.(clearStepMax)) === clearStepMax);
  }
}
