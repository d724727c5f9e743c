/**
 * Work that is due whether or not anybody asks: lapsed leases, silent agents, expired tokens. One server at a
 * time does it, in small steps.
 */
import type { PostgresSql } from '../database/connection.js';
import { takeTurn } from '../database/turns.js';

export interface SweepsOptions {
  readonly sweeps: readonly ((isOver: () => boolean) => Promise<void>)[];
  readonly sql: PostgresSql;
  readonly intervalMs: number | undefined;
  readonly onError: (error: unknown, about: string) => void;
}

const defaultIntervalMs = 1_000;

export class Sweeps {
  readonly #options: SweepsOptions;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> | undefined;
  #isOver = false;
  #isFailing = false;

  constructor(options: SweepsOptions) {
    this.#options = options;
  }

  start(): void {
    const begin = (): void => {
      this.#round ??= this.#sweep().finally(() => {
        this.#round = undefined;
      });
    };
    this.#timer = setInterval(begin, this.#options.intervalMs ?? defaultIntervalMs);
    this.#timer.unref();
    begin();
  }

  async close(): Promise<void> {
    this.#isOver = true;
    clearInterval(this.#timer);
    await this.#round;
  }

  async #sweep(): Promise<void> {
    const { sweeps, sql, intervalMs = defaultIntervalMs, onError } = this.#options;
    try {
      if (await takeTurn(sql, 'leases and tokens', intervalMs))
        for (const sweep of sweeps) await sweep(() => this.#isOver);
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) onError(error, 'sweeping leases and tokens; it is tried again');
      this.#isFailing = true;
    }
  }
}
