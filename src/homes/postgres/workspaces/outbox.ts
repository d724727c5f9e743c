/** Changes of workspaces on their way from PostgreSQL to the feed of whichever server empties the outbox. */
import type { Change } from '../../../core/change.js';
import { type PostgresSql, query, transaction } from '../connection.js';

export interface WorkspacesOutboxOptions {
  sql: PostgresSql;
  announce: (changes: readonly Change[]) => Promise<void>;
  onError: (error: unknown) => void;
}

const rowsMax = 500;

export class WorkspacesOutbox {
  readonly #options: WorkspacesOutboxOptions;
  #announcing: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(options: WorkspacesOutboxOptions) {
    this.#options = options;
  }

  /** Empties it once more; whoever asks while that runs shares the next time. The write stands, whatever becomes of it. */
  announce(): Promise<void> {
    this.#next ??= this.#announcing.then(() => {
      this.#next = undefined;
      this.#announcing = this.#empty().catch(this.#options.onError);
      return this.#announcing;
    });
    return this.#next;
  }

  /** Resolves when nothing is under way. */
  settled(): Promise<void> {
    return this.#announcing;
  }

  /** Rows that another server is at are left to it. */
  async #empty(): Promise<void> {
    let announced = rowsMax;
    while (announced === rowsMax) {
      announced = await transaction(this.#options.sql, async (tx) => {
        const rows = await query<{ seq: string; change: string }>(
          tx,
          `DELETE FROM workspaces.outbox WHERE seq IN (SELECT seq FROM workspaces.outbox ORDER BY seq LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED) RETURNING seq, change`,
        );
        // The outbox holds nothing but changes.
        const changes = rows
          .toSorted((a, b) => Number(a.seq) - Number(b.seq))
          .map(({ change }) => JSON.parse(change) as Change);
        if (changes.length > 0) await this.#options.announce(changes);
        return rows.length;
      });
    }
  }
}
