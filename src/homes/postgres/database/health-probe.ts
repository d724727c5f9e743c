/** Checks whether a database answers, within a time limit. */
import { StoaError, messageOf } from '../../../core/errors.js';
import { within } from '../../../core/waiting/within.js';
import type { HealthCheck } from '../../../messaging/port.js';

export interface HealthProbeOptions {
  /** For messages. */
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
    return (
      (await within(secondsMax * 1_000, this.#asking)) ?? {
        status: 'fail',
        message: `${database} did not answer within ${secondsMax} s.`,
      }
    );
  }

  async #ask(): Promise<HealthCheck> {
    const startedMs = performance.now();
    try {
      await this.#options.ask();
      return { status: 'pass', latencyMs: performance.now() - startedMs };
    } catch (error) {
      const readOnly = error instanceof StoaError && error.details?.['read_only'] === true;
      return { status: 'fail', message: messageOf(error), ...(readOnly && { readOnly }) };
    }
  }
}
