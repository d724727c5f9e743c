/** Gives committed writes their numbers in the feed soon after the commit. Any server can do it. */
import { type PostgresSql, query } from '../database/connection.js';

export interface NumberingOptions {
  readonly sql: PostgresSql;
  readonly onNumbered: (lastSeq: number) => void;
  /** Called once per outage of the database, not for each failed attempt. */
  readonly onError: (error: unknown) => void;
}

const rowsMax = 1_000;
/** How often each server numbers rows that a killed server left, or whose wake-up was lost. */
const intervalMs = 500;

export class Numbering {
  readonly #options: NumberingOptions;
  #current: Promise<number> = Promise.resolve(0);
  #next: Promise<number> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #isFailing = false;

  constructor(options: NumberingOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setInterval(() => this.soon(), intervalMs);
    this.#timer.unref();
    this.soon();
  }

  /**
   * Numbers all writes committed so far and returns the newest number. Calls during a round share the next
   * round.
   */
  now(): Promise<number> {
    this.#next ??= this.#current
      .catch(() => 0)
      .then(() => {
        this.#next = undefined;
        this.#current = this.#round();
        return this.#current;
      });
    return this.#next;
  }

  /** `now` for callers that do not wait for the result. */
  soon(): void {
    this.now().then(
      () => {
        this.#isFailing = false;
      },
      (error: unknown) => {
        if (!this.#isFailing) this.#options.onError(error);
        this.#isFailing = true;
      },
    );
  }

  async close(): Promise<void> {
    clearInterval(this.#timer);
    await (this.#next ?? this.#current).catch(() => 0);
  }

  async #round(): Promise<number> {
    for (;;) {
      const [row] = await query<{ last_seq: string; numbered: number }>(
        this.#options.sql,
        'SELECT last_seq, numbered FROM feed.number_commits($1)',
        [rowsMax],
      );
      const lastSeq = Number(row?.last_seq ?? 0);
      this.#options.onNumbered(lastSeq);
      if ((row?.numbered ?? 0) < rowsMax) return lastSeq;
    }
  }
}
