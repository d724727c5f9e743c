/** Checks whether a database answers, within a time limit. */
import { StoaError, messageOf } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { within } from '../../../core/waiting/within.js';
import type { HealthCheck } from '../../../messaging/port.js';

export class HealthProbe {
  readonly #database: string;
  readonly #ask: () => Promise<unknown>;
  readonly #secondsMax: number;
  #asking: Promise<HealthCheck> | undefined;

  /** `database` is for messages. */
  constructor(database: string, ask: () => Promise<unknown>, limits: Limits) {
    this.#database = database;
    this.#ask = ask;
    this.#secondsMax = limits.healthSecondsMax;
  }

  async check(): Promise<HealthCheck> {
    // One question at a time: a database that is silent must not gather them.
    this.#asking ??= this.#measure().finally(() => {
      this.#asking = undefined;
    });
    const message = `${this.#database} did not answer within ${this.#secondsMax} s.`;
    return (await within(this.#secondsMax * 1_000, this.#asking)) ?? { status: 'fail', message };
  }

  async #measure(): Promise<HealthCheck> {
    const startedMs = performance.now();
    try {
      await this.#ask();
      return { status: 'pass', latencyMs: performance.now() - startedMs };
    } catch (error) {
      const readOnly = error instanceof StoaError && error.details?.['read_only'] === true;
      return { status: 'fail', message: messageOf(error), ...(readOnly && { readOnly }) };
    }
  }
}
