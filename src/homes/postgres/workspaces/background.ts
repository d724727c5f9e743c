/** Background work on workspaces in PostgreSQL: expired leases and sessions, bulk work and re-keying. */
import { Listeners } from '../../../core/listeners.js';
import { Periodic } from '../../../core/waiting/periodic.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Sealer } from '../../../secrets/sealer.js';
import type { PostgresSql } from '../database/connection.js';
import { takeTurn } from '../database/turns.js';
import { bulkStep } from './bulk.js';
import { expireQuestions, releaseDue, returnExpired } from './tasks/claims.js';
import { resealStep, startReseal } from './reseal.js';
import { endDueSessions } from './sessions.js';
import type { WorkspacesWork } from './work.js';

export interface WorkspacesBackgroundOptions {
  readonly sql: PostgresSql;
  readonly limits: Limits;
  readonly sealer: Sealer;
  readonly transact: <T>(run: (work: WorkspacesWork) => Promise<T>) => Promise<T>;
  readonly sweepIntervalMs: number;
  readonly onError: (error: unknown, about: string) => void;
}

export class WorkspacesBackground {
  readonly #options: WorkspacesBackgroundOptions;
  readonly #sweeping: Periodic;
  /** The jobs run one after the other. At most one sweep and one settlement wait. */
  #running: Promise<void> = Promise.resolve();
  #isSettleWaiting = false;
  /** After each step of a re-keying: the number of changed records. */
  readonly #resealed = new Listeners<number>();
  #closing = false;

  constructor(options: WorkspacesBackgroundOptions) {
    this.#options = options;
    const { sweepIntervalMs } = options;
    this.#sweeping = new Periodic({
      everyMs: sweepIntervalMs,
      run: () => this.#inOrder(() => this.#sweepInTurn(sweepIntervalMs)),
      onError: (error) => this.#report(error),
    });
  }

  start(): void {
    this.#sweeping.start();
    this.settleSoon();
  }

  /** Does all bulk work that is recorded in the database, without waiting for it. */
  settleSoon(): void {
    if (this.#isSettleWaiting) return;
    this.#isSettleWaiting = true;
    const settled = this.#inOrder(() => {
      this.#isSettleWaiting = false;
      return this.#settle();
    });
    // The next sweep tries again.
    settled.catch((error: unknown) => this.#report(error));
  }

  /** Handles expired leases and questions, start times, sessions past their limits, and bulk work. */
  async sweep(): Promise<void> {
    const { transact, limits } = this.#options;
    const rowsMax = limits.sweepStepMax;
    while (!this.#closing && (await transact((work) => returnExpired(work, rowsMax))) === rowsMax);
    while (!this.#closing && (await transact((work) => releaseDue(work, rowsMax))) === rowsMax);
    while (!this.#closing && (await transact((work) => expireQuestions(work, rowsMax))) === rowsMax);
    while (!this.#closing && (await transact((work) => endDueSessions(work, rowsMax))) === rowsMax);
    await this.#settle();
  }

  async beginReseal(): Promise<void> {
    const { transact, sealer } = this.#options;
    await transact((work) => startReseal(work, sealer));
    this.settleSoon();
  }

  async reseal(onProgress: (resealed: number) => void): Promise<number> {
    const { transact, sealer } = this.#options;
    let resealed = 0;
    const stop = this.#resealed.add((records) => {
      resealed += records;
      onProgress(resealed);
    });
    try {
      await transact((work) => startReseal(work, sealer));
      while (!this.#closing && (await this.#resealStep()));
    } finally {
      stop();
    }
    return resealed;
  }

  /** Resolves when the background work that was started so far has ended. */
  idle(): Promise<void> {
    return this.#running;
  }

  async close(): Promise<void> {
    this.#closing = true;
    await this.#sweeping.close();
    await this.#running;
  }

  async #sweepInTurn(intervalMs: number): Promise<void> {
    if (await takeTurn(this.#options.sql, 'workspaces', intervalMs)) await this.sweep();
  }

  async #settle(): Promise<void> {
    while (!this.#closing && (await this.#options.transact((work) => bulkStep(work))));
    while (!this.#closing && (await this.#resealStep()));
  }

  /** One step of a re-keying that was started on any server. Returns false if there is none. */
  async #resealStep(): Promise<boolean> {
    const { transact, sealer } = this.#options;
    const records = await transact((work) => resealStep(work, sealer));
    if (records === null) return false;
    this.#resealed.tell(records);
    return true;
  }

  #inOrder(job: () => Promise<void>): Promise<void> {
    const done = this.#running.then(() => (this.#closing ? undefined : job()));
    // The caller reports the error.
    this.#running = done.catch(() => undefined);
    return done;
  }

  #report(error: unknown): void {
    if (!this.#closing) this.#options.onError(error, 'background work on workspaces');
  }
}
