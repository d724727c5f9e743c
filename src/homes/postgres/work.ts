/** One transaction of the PostgreSQL home while its steps run. */
import type { TransactionSql } from 'postgres';
import type { Change } from '../../core/change.js';
import { StoaError } from '../../core/errors.js';
import { type Parameter, query } from './connection.js';
import type { Limits } from '../../core/settings/limits.js';

/** Adds the changes of a write to the feed, as the last statement of its transaction. */
export type AppendChanges = (work: Work, changes: readonly Change[]) => Promise<void>;

export class Work {
  readonly sql: TransactionSql;
  /** The clock that all steps of the write share. */
  readonly nowMs: number;
  readonly limits: Limits;
  readonly #append: AppendChanges | undefined;
  readonly #changes: Change[] = [];
  readonly #parts = new Map<unknown, unknown>();
  readonly #beforeCommit: (() => Promise<void>)[] = [];
  readonly #afterCommit: (() => void | Promise<void>)[] = [];

  constructor(sql: TransactionSql, nowMs: number, limits: Limits, append?: AppendChanges) {
    this.sql = sql;
    this.nowMs = nowMs;
    this.limits = limits;
    this.#append = append;
  }

  rows<Found extends object>(text: string, parameters: readonly Parameter[] = []): Promise<readonly Found[]> {
    return query<Found>(this.sql, text, parameters);
  }

  /** What a domain keeps for the length of the transaction; made at the first call. */
  part<Part>(make: (work: Work) => Part): Part {
    if (!this.#parts.has(make)) this.#parts.set(make, make(this));
    // Stored under the function that made it.
    return this.#parts.get(make) as Part;
  }

  /** Announces changes with the commit, in the order in which they are given. */
  announce(changes: readonly Change[]): void {
    this.#changes.push(...changes);
  }

  /** Adds statements that come after all steps, right before the commit. */
  beforeCommit(statements: () => Promise<void>): void {
    this.#beforeCommit.push(statements);
  }

  /** Adds what is to be done once the commit stands: waking waiters, filling caches, announcing. */
  afterCommit(act: () => void | Promise<void>): void {
    this.#afterCommit.push(act);
  }

  async finish(): Promise<void> {
    for (const statements of this.#beforeCommit) await statements();
    if (this.#changes.length === 0) return;
    if (this.#append === undefined)
      throw new StoaError('internal', 'A write announced changes, and the home has no feed for them.');
    await this.#append(this, this.#changes);
  }

  async committed(): Promise<void> {
    for (const act of this.#afterCommit) await act();
  }
}
