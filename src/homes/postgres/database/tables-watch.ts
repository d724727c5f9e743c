/**
 * Notices that a newer program has changed the tables. This program then writes nothing more: its rows would
 * have the old layout.
 */
import type { StoaError } from '../../../core/errors.js';
import type { PostgresSql } from './connection.js';
import { newerTables } from './migrate.js';

export interface TablesWatchOptions {
  readonly sql: PostgresSql;
  /** The migration steps that this program knows, by domain. */
  readonly known: ReadonlyMap<string, number>;
  readonly onError: (error: unknown, about: string) => void;
}

const lookEveryMs = 1_000;

export class TablesWatch {
  readonly #options: TablesWatchOptions;
  #newer: StoaError | undefined;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> = Promise.resolve();
  #isFailing = false;

  constructor(options: TablesWatchOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => {
      this.#looking = this.#looking.then(() => this.#lookAgain());
    }, lookEveryMs);
    this.#timer.unref();
  }

  /** Throws once a newer program has changed a table. */
  check(): void {
    if (this.#newer !== undefined) throw this.#newer;
  }

  async look(): Promise<void> {
    if (this.#newer !== undefined) return;
    const { sql, known, onError } = this.#options;
    const newer = await newerTables(sql, known);
    if (newer === undefined || this.#newer !== undefined) return;
    this.#newer = newer;
    onError(newer, 'checking the version of the tables');
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.#looking;
  }

  /** An outage of the database is reported once. */
  async #lookAgain(): Promise<void> {
    try {
      await this.look();
      this.#isFailing = false;
    } catch (error) {
      if (!this.#isFailing) this.#options.onError(error, 'checking the version of the tables');
      this.#isFailing = true;
    }
  }
}
