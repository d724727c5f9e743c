/** What workspaces keep for the length of one transaction: changes to announce, claims to wake, work left behind. */
import type { TransactionSql } from 'postgres';
import type { Change } from '../../../core/change.js';
import type { Work } from '../work.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Parameter } from '../connection.js';
import { type Row, timeText } from './rows.js';

/** The channel on which servers tell each other that tasks became ready. */
export const readyChannel = 'stoa_tasks_ready';

/** What follows a commit. */
export interface Left {
  /** Changes stand in the outbox. */
  changes: boolean;
  /** Marks of bulk work were left behind. */
  work: boolean;
}

export class WorkspacesWork {
  readonly #work: Work;
  readonly #changes: Change[] = [];
  readonly #ready = new Map<string, number>();
  #leftWork = false;

  constructor(work: Work, afterCommit: (left: Left) => Promise<void>) {
    this.#work = work;
    work.beforeCommit(() => this.#finish());
    work.afterCommit(() => afterCommit({ changes: this.#changes.length > 0, work: this.#leftWork }));
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

  change(change: Omit<Change, 'domain'>): void {
    this.#changes.push({ domain: 'workspaces', ...change });
  }

  becameReady(projectId: string, tasks = 1): void {
    this.#ready.set(projectId, (this.#ready.get(projectId) ?? 0) + tasks);
  }

  async markBulk(kind: string, name: string, value: string): Promise<void> {
    await this.rows(
      'INSERT INTO workspaces.bulk_work (kind, name, value) VALUES ($1, $2, $3) ON CONFLICT (kind, name) DO UPDATE SET value = excluded.value',
      [kind, name, value],
    );
    this.#leftWork = true;
  }

  /** Last of all: the changes go out with the commit that made them, and so do the calls to those who wait. */
  async #finish(): Promise<void> {
    for (const change of this.#changes)
      await this.rows('INSERT INTO workspaces.outbox (change) VALUES ($1)', [JSON.stringify(change)]);
    for (const [projectId, tasks] of this.#ready)
      await this.rows('SELECT pg_notify($1, $2)', [readyChannel, `${projectId} ${tasks}`]);
  }
}
