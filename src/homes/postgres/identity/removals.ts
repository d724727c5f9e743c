/** How servers tell each other that a token was removed, and whether this one would have heard of it. */
import { type PostgresSql, listen, query } from '../connection.js';
import type { Work } from '../work.js';

/** Tokens are removed rarely: the lock that NOTIFY takes at commit is not felt. */
const channel = 'stoa_tokens_removed';

/** Removed tokens that one notice names; PostgreSQL takes 8,000 bytes. */
const idsPerNotice = 300;

/** A connection that is frozen looks alive, so a server hears itself through it this often. */
const beatEveryMs = 400;
const silentMsMax = 1_000;

export interface RemovalsOptions {
  readonly sql: PostgresSql;
  readonly onRemoved: (id: string) => void;
  /** Called after the connection was lost: tokens may have been removed that this server has not heard of. */
  readonly onMissed: () => void;
  readonly onError: (error: unknown) => void;
}

export class Removals {
  readonly #options: RemovalsOptions;
  #beating: NodeJS.Timeout | undefined;
  #heardMs = -Infinity;
  #isListening = false;

  constructor(options: RemovalsOptions) {
    this.#options = options;
  }

  async open(): Promise<void> {
    const { sql, onMissed } = this.#options;
    await listen(
      sql,
      channel,
      (payload) => this.#hear(payload),
      () => {
        if (this.#isListening) onMissed();
        this.#isListening = true;
      },
    );
    this.#heardMs = performance.now();
    this.#beating = setInterval(() => void this.#beat(), beatEveryMs);
    this.#beating.unref();
  }

  /** What is remembered of tokens counts only while this holds. */
  isHeard(): boolean {
    return performance.now() - this.#heardMs < silentMsMax;
  }

  async tell(work: Work, ids: readonly string[]): Promise<void> {
    for (let start = 0; start < ids.length; start += idsPerNotice)
      await work.rows('SELECT pg_notify($1, $2)', [
        channel,
        ids.slice(start, start + idsPerNotice).join(' '),
      ]);
  }

  close(): void {
    clearInterval(this.#beating);
  }

  #hear(payload: string): void {
    this.#heardMs = performance.now();
    for (const id of payload.split(' ')) if (id !== '') this.#options.onRemoved(id);
  }

  async #beat(): Promise<void> {
    try {
      await query(this.#options.sql, 'SELECT pg_notify($1, $2)', [channel, '']);
    } catch (error) {
      this.#options.onError(error);
    }
  }
}
