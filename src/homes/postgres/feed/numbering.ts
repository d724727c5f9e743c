/** Gives committed writes their numbers in the feed soon after the commit. Any server can do it. */
import { FirstFailures } from '../../../core/waiting/first-failures.js';
import { SharedRuns } from '../../../core/waiting/shared-runs.js';
import { type PostgresSql, query } from '../database/connection.js';

/** The newest number, in its epoch. */
export interface Newest {
  readonly epoch: string;
  readonly seq: number;
}

export interface NumberingOptions {
  readonly sql: PostgresSql;
  readonly onNumbered: (newest: Newest) => void;
  /** Called once per outage of the database, not for each failed attempt. */
  readonly onError: (error: unknown) => void;
}

const rowsMax = 1_000;
/** How often each server numbers rows that a killed server left, or whose wake-up was lost. */
const intervalMs = 500;
/**
 * Time between the starts of two rounds that no caller waits for. A round is a commit on disk and a notice to
 * every server; without a pause each busy server makes one after the other, and the rounds of all servers add
 * up.
 */
const pauseMs = 10;

export class Numbering {
  readonly #options: NumberingOptions;
  readonly #rounds = new SharedRuns(() => this.#round());
  #timer: NodeJS.Timeout | undefined;
  #startedMs = -Infinity;
  #paused: NodeJS.Timeout | undefined;
  readonly #failures: FirstFailures;
  #isClosed = false;

  constructor(options: NumberingOptions) {
    this.#options = options;
    this.#failures = new FirstFailures(options.onError);
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
  now(): Promise<Newest> {
    return this.#rounds.run('');
  }

  /** `now`, after a pause, for callers that do not wait for the result. Calls during the pause share the round. */
  soon(): void {
    if (this.#isClosed || this.#paused !== undefined) return;
    const waitMs = this.#startedMs + pauseMs - performance.now();
    if (waitMs <= 0) this.#runSoon();
    else this.#paused = setTimeout(() => this.#runSoon(), waitMs);
  }

  #runSoon(): void {
    this.#paused = undefined;
    void this.#failures.run(() => this.now());
  }

  /** Another server, or the next one, numbers what is committed from now on. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#timer);
    clearTimeout(this.#paused);
    if (this.#paused !== undefined) this.#runSoon();
    await this.#rounds.settled();
  }

  async #round(): Promise<Newest> {
    this.#startedMs = performance.now();
    for (;;) {
      const [row] = await query<{ epoch: string; last_seq: string; numbered: number }>(
        this.#options.sql,
        'SELECT epoch, last_seq, numbered FROM feed.number_commits($1)',
        [rowsMax],
      );
      const newest = { epoch: row?.epoch ?? '', seq: Number(row?.last_seq ?? 0) };
      this.#options.onNumbered(newest);
      if ((row?.numbered ?? 0) < rowsMax) return newest;
    }
  }
}
