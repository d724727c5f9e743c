/**
 * How servers notify each other that a token was removed or replaced, and how a server knows that it receives
 * these notices.
 */
import { randomUUID } from 'node:crypto';
import { type PostgresSql, listen, query } from '../database/connection.js';
import type { Work } from '../write/work.js';

/** Tokens are removed rarely, so the lock that NOTIFY takes at commit does not matter. */
const channel = 'stoa_tokens_removed';

/** The notice that the operator's token was replaced. */
export const tokenNotice = { channel, operatorReplaced: 'operator' } as const;

/** Removed tokens that one notice names; PostgreSQL takes 8,000 bytes. */
const idsPerNotice = 300;

/**
 * A connection that is frozen looks alive, so a server hears itself through it this often. A beat says when
 * it was sent: one that comes late proves nothing of the time since.
 */
const beatWord = 'beat';
const beatEveryMs = 400;
const silentMsMax = 1_000;

export interface RemovalsOptions {
  readonly sql: PostgresSql;
  /** Not the pool: a beat that waits for a busy pool comes too late. */
  readonly beats: PostgresSql;
  readonly onRemoved: (id: string) => void;
  /**
   * Called after the connection was lost, because tokens may have been removed that this server has not heard
   * of; and when the operator's token was replaced.
   */
  readonly onMissed: () => void;
  readonly onError: (error: unknown) => void;
}

export class Removals {
  readonly #options: RemovalsOptions;
  /** Distinguishes the beats of this server from those of other servers. */
  readonly #server = randomUUID();
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
    await this.#beat();
    this.#beating = setInterval(() => void this.#beat(), beatEveryMs);
    this.#beating.unref();
  }

  /** Cached tokens are used only while this is true. */
  isReceiving(): boolean {
    return performance.now() - this.#heardMs < silentMsMax;
  }

  async notify(work: Work, ids: readonly string[]): Promise<void> {
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
    const [first = '', sentMs, ...rest] = payload.split(' ');
    if (first === beatWord) {
      if (rest[0] === this.#server) this.#heardMs = Math.max(this.#heardMs, Number(sentMs));
      return;
    }
    if (payload === tokenNotice.operatorReplaced) {
      this.#options.onMissed();
      return;
    }
    for (const id of payload.split(' ')) this.#options.onRemoved(id);
  }

  async #beat(): Promise<void> {
    try {
      await query(this.#options.beats, 'SELECT pg_notify($1, $2)', [
        channel,
        `${beatWord} ${performance.now()} ${this.#server}`,
      ]);
    } catch (error) {
      this.#options.onError(error);
    }
  }
}
