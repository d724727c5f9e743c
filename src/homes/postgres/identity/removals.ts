/**
 * How servers notify each other that a token was removed or replaced, or that an agent was deleted or renamed,
 * and how a server knows that it receives these notices.
 */
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError } from '../../../core/errors.js';
import type { ActingAgent } from '../../../registry/recent-agents.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import type { PostgresSql } from '../database/connection.js';
import type { DatabaseClock } from '../database/database-clock.js';
import { listen } from '../database/pool.js';
import type { Work } from '../write/work.js';

/** Tokens and agents are removed rarely, so the lock that NOTIFY takes at commit does not matter. */
const channel = 'stoa_tokens_removed';

/** The notice that the operator's token was replaced. */
export const tokenNotice = { channel, operatorReplaced: 'operator' } as const;

const agentWord = 'agent';

/** Makes the other servers forget that the agent was at work: its next write there makes or renews it. */
export function notifyForgotten(work: Pick<Work, 'send'>, { user, agent }: ActingAgent): void {
  const names = [user, agent].map((name) => encodeURIComponent(name));
  work.send('SELECT pg_notify($1, $2)', [channel, [agentWord, ...names].join(' ')]);
}

/** Removed tokens that one notice names; PostgreSQL takes 8,000 bytes. */
const idsPerNotice = 300;

/**
 * A connection that is frozen looks alive, so a server hears itself through it this often. A beat says when
 * it was sent: one that comes late proves nothing of the time since.
 */
const beatWord = 'beat';
const beatEveryMs = 400;
const silentMsMax = 1_000;
/** At the start a server waits for its first beat. It arrives within milliseconds, or never. */
const firstBeatMsMax = 10_000;
const firstBeatEveryMs = 20;

export interface RemovalsOptions {
  readonly sql: PostgresSql;
  /** On the connections for signs of life: a beat that waits for a busy pool comes too late. */
  readonly databaseClock: DatabaseClock;
  readonly onRemoved: (id: string) => void;
  readonly onAgentForgotten: (agent: ActingAgent) => void;
  /**
   * Called after the connection was lost, because of tokens and agents that this server has not heard
   * of; and when the operator's token was replaced.
   */
  readonly onMissed: () => void;
  readonly onError: (error: unknown) => void;
}

export class Removals {
  readonly #options: RemovalsOptions;
  /** Distinguishes the beats of this server from those of other servers. */
  readonly #server = randomUUID();
  readonly #beating: Periodic;
  #heardMs = -Infinity;
  #isListening = false;

  constructor(options: RemovalsOptions) {
    this.#options = options;
    this.#beating = new Periodic({
      everyMs: beatEveryMs,
      run: () => this.#beat(),
      onError: options.onError,
    });
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
    await this.#hearFirst();
    this.#beating.start();
  }

  /** A pooler that gives a connection to others after each transaction passes no notices on. */
  async #hearFirst(): Promise<void> {
    for (const startedMs = performance.now(); this.#heardMs < 0; await sleep(firstBeatEveryMs)) {
      if (performance.now() - startedMs > firstBeatMsMax)
        throw new StoaError(
          'unsupported',
          `PostgreSQL sends its notices to this server, but none arrived within ${firstBeatMsMax / 1_000} s.`,
          { fix: 'A PgBouncer in between must use session pooling: pool_mode = session.' },
        );
      await this.#beat();
    }
  }

  /** Tokens and agents in memory count only while this is true. */
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

  close(): Promise<void> {
    return this.#beating.close();
  }

  #hear(payload: string): void {
    const [first = '', second = '', third = ''] = payload.split(' ');
    if (first === beatWord) {
      if (third === this.#server) this.#heardMs = Math.max(this.#heardMs, Number(second));
      return;
    }
    if (first === agentWord) {
      this.#options.onAgentForgotten({ user: decodeURIComponent(second), agent: decodeURIComponent(third) });
      return;
    }
    if (payload === tokenNotice.operatorReplaced) {
      this.#options.onMissed();
      return;
    }
    for (const id of payload.split(' ')) this.#options.onRemoved(id);
  }

  /** Each beat also reads the clock of the database. */
  async #beat(): Promise<void> {
    const parameters = [channel, `${beatWord} ${performance.now()} ${this.#server}`];
    await this.#options.databaseClock.refresh({ column: 'pg_notify($1, $2)', parameters });
  }
}
