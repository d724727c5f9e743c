/** Sweeps of expired leases, silent agents and expired tokens. One server at a time does them, in small steps. */
import { Periodic } from '../../../core/waiting/periodic.js';
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
  readonly #sweeping: Periodic;
  #isOver = false;

  constructor(options: SweepsOptions) {
    this.#options = options;
    this.#sweeping = new Periodic({
      everyMs: options.intervalMs ?? defaultIntervalMs,
      run: () => this.#sweep(),
      onError: (error) => options.onError(error, 'sweeping leases and tokens; it is tried again'),
    });
  }

  start(): void {
    this.#sweeping.start();
    this.#sweeping.runSoon();
  }

  close(): Promise<void> {
    this.#isOver = true;
    return this.#sweeping.close();
  }

  async #sweep(): Promise<void> {
    const { sweeps, sql, intervalMs = defaultIntervalMs } = this.#options;
    if (await takeTurn(sql, 'leases and tokens', intervalMs))
      for (const sweep of sweeps) await sweep(() => this.#isOver);
  }
}
