/** Whether a database answers: said in good time, whatever the database does. */
import { messageOf } from '../../../core/errors.js';
import type { HealthCheck } from '../../../messaging/port.js';

export interface HealthProbeOptions {
  /** As people call it. */
  database: string;
  ask: () => Promise<unknown>;
  secondsMax: number;
}

export class HealthProbe {
  readonly #options: HealthProbeOptions;
  #asking: Promise<HealthCheck> | undefined;

  constructor(options: HealthProbeOptions) {
    this.#options = options;
  }

  async check(): Promise<HealthCheck> {
    // One question at a time: a database that is silent must not gather them.
    this.#asking ??= this.#ask().finally(() => {
      this.#asking = undefined;
    });
    const { database, secondsMax } = this.#options;
    let timer: NodeJS.Timeout | undefined;
    const silence = new Promise<HealthCheck>((resolve) => {
      timer = setTimeout(
        () => resolve({ status: 'fail', message: `${database} did not answer within ${secondsMax} s.` }),
        secondsMax * 1_000,
      );
    });
    try {
      return await Promise.race([this.#asking, silence]);
    } finally {
      clearTimeout(timer);
    }
  }

  async #ask(): Promise<HealthCheck> {
    const startedMs = performance.now();
    try {
      await this.#options.ask();
      return { status: 'pass', latencyMs: performance.now() - startedMs };
    } catch (error) {
      return { status: 'fail', message: messageOf(error) };
    }
  }
}
