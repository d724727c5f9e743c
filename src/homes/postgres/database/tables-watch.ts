/**
 * Notices that a newer program has changed the tables. This program then writes nothing more: its rows would
 * have the old layout.
 */
import type { StoaError } from '../../../core/errors.js';
import { Periodic } from '../../../core/waiting/periodic.js';
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
  readonly #looking: Periodic;

  constructor(options: TablesWatchOptions) {
    this.#options = options;
    this.#looking = new Periodic({
      everyMs: lookEveryMs,
      run: () => this.look(),
      onError: (error) => options.onError(error, 'checking the version of the tables'),
    });
  }

  start(): void {
    this.#looking.start();
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

  close(): Promise<void> {
    return this.#looking.close();
  }
}
