/** Background work on workspaces in PostgreSQL: expired leases and sessions, bulk work and re-keying. */
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
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> = Promise.resolve();
  /** Called after each step of a re-keying with the number of changed records. */
  readonly #onResealed = new Set<(records: number) => void>();
  #closing = false;

  constructor(options: WorkspacesBackgroundOptions) {
    this.#options = options;
  }

  start(): void {
    const { sweepIntervalMs } = this.#options;
    this.#timer = setInterval(() => this.#run(() => this.#sweepInTurn(sweepIntervalMs)), sweepIntervalMs);
    this.#timer.unref();
    this.settleSoon();
  }

  /** Does all bulk work that is recorded in the database, without waiting for it. */
  settleSoon(): void {
    this.#run(() => this.#settle());
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
    const listener = (records: number): void => {
      resealed += records;
      onProgress(resealed);
    };
    this.#onResealed.add(listener);
    try {
      await transact((work) => startReseal(work, sealer));
      while (!this.#closing && (await this.#resealStep()));
    } finally {
      this.#onResealed.delete(listener);
    }
    return resealed;
  }

  /** Resolves when the background work that was started so far has ended. */
  idle(): Promise<void> {
    return this.#running;
  }

  async close(): Promise<void> {
    this.#closing = true;
    clearInterval(this.#timer);
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
    for (const listener of this.#onResealed) listener(records);
    return true;
  }

  /** Runs one job after the other. A failed job is reported and tried again with the next sweep. */
  #run(job: () => Promise<void>): void {
    if (this.#closing) return;
    this.#running = this.#running.then(job).catch((error: unknown) => {
      if (!this.#closing) this.#options.onError(error, 'background work on workspaces');
    });
  }
}
