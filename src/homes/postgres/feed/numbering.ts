/** Gives committed writes their numbers in the feed, soon after their commit, on the server that is first. */
import { type PostgresSql, query } from '../connection.js';

export interface NumberingOptions {
  readonly sql: PostgresSql;
  readonly onNumbered: (lastSeq: number) => void;
  /** Called once for each time that the database stops answering. */
  readonly onError: (error: unknown) => void;
}

const rowsMax = 1_000;
/** A server that died after a commit leaves its row to the others, which look this often. A lost wake-up costs no more either. */
const lookEveryMs = 500;

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
    this.#timer = setInterval(() => this.soon(), lookEveryMs);
    this.#timer.unref();
    this.soon();
  }

  /** Numbers everything that is committed by now, and answers the newest number. Calls during a round share the next one. */
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

  /** The same for a caller that does not wait. */
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
