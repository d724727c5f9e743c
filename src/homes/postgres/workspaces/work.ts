/** What workspaces keep for the length of one transaction: claims to wake, and work left behind. */
import type { TransactionSql } from 'postgres';
import type { Change } from '../../../core/change.js';
import type { KnownUsers } from '../known-users.js';
import type { Work } from '../work.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Parameter } from '../connection.js';
import { type Row, timeText } from './rows.js';

/** What follows a commit. */
export interface Left {
  /** Projects in which so many tasks became ready. */
  readonly ready: ReadonlyMap<string, number>;
  /** Marks of bulk work were left behind. */
  readonly work: boolean;
}

export class WorkspacesWork {
  readonly #work: Work;
  readonly #ready = new Map<string, number>();
  #leftWork = false;

  constructor(work: Work, afterCommit: (left: Left) => void) {
    this.#work = work;
    work.afterCommit(() => afterCommit({ ready: this.#ready, work: this.#leftWork }));
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

  rows<Found extends object = Row>(
    text: string,
    parameters: readonly Parameter[] = [],
  ): Promise<readonly Found[]> {
    return this.#work.rows<Found>(text, parameters);
  }

  send(text: string, parameters: readonly Parameter[] = []): void {
    this.#work.send(text, parameters);
  }

  ensureUser(users: KnownUsers, user: string): Promise<void> {
    return users.ensure(this.#work, user);
  }

  /** Goes by the database's clock from here on, as a row has it under `clock_ms`. */
  readClock(row: Row | undefined): void {
    if (row !== undefined) this.#work.readClock(row['clock_ms']);
  }

  /** The clock of the write in a statement, as one that waits for nothing reads it. */
  get clockSql(): string {
    return `(clock_timestamp() + ${this.#work.clock.skewMs} * interval '1 millisecond')`;
  }

  change(change: Omit<Change, 'domain'>): void {
    this.#work.announce({ domain: 'workspaces', ...change });
  }

  becameReady(projectId: string, tasks = 1): void {
    this.#ready.set(projectId, (this.#ready.get(projectId) ?? 0) + tasks);
  }

  markBulk(owner: string, kind: string, name: string, value: string): void {
    this.send(
      `INSERT INTO workspaces.bulk_work (owner_id, kind, name, value) VALUES ($1, $2, $3, $4)
        ON CONFLICT (owner_id, kind, name) DO UPDATE SET value = excluded.value`,
      [owner, kind, name, value],
    );
    this.#leftWork = true;
  }
}
