/** The part of workspaces in a transaction: it collects ready tasks and bulk work until the commit. */
import type { TransactionSql } from 'postgres';
import type { Change } from '../../../core/change.js';
import type { KnownUsers } from '../known-users.js';
import type { LoadAll } from '../write/look-ups.js';
import type { SharedPart, Work } from '../write/work.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Parameter } from '../database/connection.js';
import type { TaskLease } from '../../../workspaces/model.js';
import { type Row, timeText } from './rows.js';

/** Tasks that became ready. */
export interface ReadyTasks {
  readonly projectId: string;
  /** The labels of each of them, or null if they are not known. */
  readonly labels: readonly string[] | null;
  readonly tasks: number;
}

/** What to do after the commit. */
export interface CommitEffects {
  readonly ready: readonly ReadyTasks[];
  /** True if the transaction added bulk work. */
  readonly hasBulkWork: boolean;
}

export class WorkspacesWork {
  readonly #work: Work;
  readonly #ready: ReadyTasks[] = [];
  #hasBulkWork = false;

  constructor(work: Work, afterCommit: (effects: CommitEffects) => void) {
    this.#work = work;
    work.afterCommit(() => afterCommit({ ready: this.#ready, hasBulkWork: this.#hasBulkWork }));
  }

  get sql(): TransactionSql {
    return this.#work.sql;
  }

  get nowMs(): number {
    return this.#work.nowMs;
  }

  get limits(): Limits {
    return this.#work.limits;
  }

  get now(): string {
    return timeText(this.nowMs);
  }

  /** The presence of the agent that holds a task must not end before the lease of the task. */
  noteHeld({ holder, expiresAtMs }: TaskLease): void {
    if (holder === this.#work.agent) this.#work.heldUntil(expiresAtMs);
  }

  rows<Found extends object = Row>(
    text: string,
    parameters: readonly Parameter[] = [],
  ): Promise<readonly Found[]> {
    return this.#work.rows<Found>(text, parameters);
  }

  lookUp<Key, Found>(load: LoadAll<Key, Found>, key: Key): Promise<Found> {
    return this.#work.lookUp(load, key);
  }

  send(text: string, parameters: readonly Parameter[] = []): void {
    this.#work.send(text, parameters);
  }

  share<Part extends SharedPart>(make: () => Part, add: (part: Part) => void): void {
    this.#work.share(make, add);
  }

  once(name: string, act: () => Promise<void>): Promise<void> {
    return this.#work.once(name, act);
  }

  ensureUser(users: KnownUsers, user: string): Promise<void> {
    return users.ensure(this.#work, user);
  }

  /** Uses the database's clock from now on, as read in the column `clock_ms` of the row. */
  readClock(row: Row | undefined): void {
    if (row !== undefined) this.#work.readClock(row['clock_ms']);
  }

  /** The database's clock in SQL, with the skew of tests. */
  get clockSql(): string {
    return `(clock_timestamp() + ${this.#work.clock.skewMs} * interval '1 millisecond')`;
  }

  announce(change: Change): void {
    this.#work.announce(change);
  }

  becameReady(projectId: string, labels: ReadyTasks['labels'], tasks = 1): void {
    this.#ready.push({ projectId, labels, tasks });
  }

  /** Records work that is too large for this transaction. It is done in steps after the commit. */
  addBulkWork(owner: string, kind: string, name: string, value: string): void {
    this.send(
      `INSERT INTO workspaces.bulk_work (owner_id, kind, name, value) VALUES ($1, $2, $3, $4)
        ON CONFLICT (owner_id, kind, name) DO UPDATE SET value = excluded.value`,
      [owner, kind, name, value],
    );
    this.#hasBulkWork = true;
  }
}
