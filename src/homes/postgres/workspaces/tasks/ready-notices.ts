/**
 * Wakes waiting claims on all servers when tasks become ready. A notice is only a hint. It is sent after the
 * commit, with many projects in one statement, because NOTIFY takes a lock that all commits share. A lost
 * notice is made up for by a poll: each server polls the projects of its own waiting claims.
 */
import { randomUUID } from 'node:crypto';
import type { ReadyWaiters } from '../../../../workspaces/tasks/ready-waiters.js';
import { Periodic } from '../../../../core/waiting/periodic.js';
import { type PostgresSql, query } from '../../database/connection.js';
import { listen } from '../../database/pool.js';
import type { ReadyTasks } from '../work.js';
import { ready } from './rows.js';

const channel = 'stoa_tasks_ready';
/** A waiting claim finds a ready task within this time even if the notice was lost. */
const pollEveryMs = 1_000;
/** In a notice, in the place of labels. No label contains it. */
const unknownLabels = '*';
/** Claims of one project that a poll wakes. */
const wokenMax = 100;

export interface ReadyNoticesOptions {
  readonly sql: PostgresSql;
  readonly waiters: ReadyWaiters;
  readonly onError: (error: unknown) => void;
}

export class ReadyNotices {
  readonly #options: ReadyNoticesOptions;
  /** Marks the notices of this server, which needs no wake-up for its own. */
  readonly #server = randomUUID();
  /** The number of ready tasks that are not sent yet, by `project labels`. Labels contain no space or comma. */
  readonly #unsent = new Map<string, number>();
  #sending: Promise<void> | undefined;
  readonly #polling: Periodic;
  #isClosing = false;

  constructor(options: ReadyNoticesOptions) {
    this.#options = options;
    this.#polling = new Periodic({
      everyMs: pollEveryMs,
      run: () => this.#poll(),
      onError: (error) => this.#report(error),
    });
  }

  async start(): Promise<void> {
    const { sql, waiters } = this.#options;
    // Notices may have been lost while the connection was down, so all waiting claims try again.
    await listen(
      sql,
      channel,
      (payload) => this.#received(payload),
      () => waiters.wakeAll(),
    );
    this.#polling.start();
  }

  /** Wakes waiting claims of this server, and notifies the other servers. */
  publish(ready: readonly ReadyTasks[]): void {
    for (const { projectId, labels, tasks } of ready) {
      this.#options.waiters.wake(projectId, labels, tasks);
      const kind = `${projectId} ${labels?.join(',') ?? unknownLabels}`;
      this.#unsent.set(kind, (this.#unsent.get(kind) ?? 0) + tasks);
    }
    if (ready.length > 0) this.#sending ??= this.#send();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#sending;
    await this.#polling.close();
  }

  /**
   * Notices that arrive during a statement share the next one. During a statement that takes longer than a poll,
   * the polls find their tasks, and they are not sent.
   */
  async #send(): Promise<void> {
    while (this.#unsent.size > 0) {
      const payloads = Array.from(this.#unsent, ([kind, tasks]) => `${this.#server} ${tasks} ${kind}`);
      this.#unsent.clear();
      const startedMs = performance.now();
      await query(this.#options.sql, 'SELECT pg_notify($1, notice) FROM unnest($2::text[]) AS notice', [
        channel,
        payloads,
      ]).catch((error: unknown) => this.#report(error));
      if (performance.now() - startedMs > pollEveryMs) this.#unsent.clear();
    }
    this.#sending = undefined;
  }

  #received(payload: string): void {
    const [server, tasks, projectId = '', labels = ''] = payload.split(' ');
    if (server === this.#server) return;
    const known = labels === unknownLabels ? null : labels.split(',').filter((label) => label !== '');
    this.#options.waiters.wake(projectId, known, Number(tasks));
  }

  /** Counts ready tasks in the projects that have waiting claims on this server. */
  async #poll(): Promise<void> {
    const { sql, waiters } = this.#options;
    const projects = waiters.projects;
    if (projects.length === 0 || this.#isClosing) return;
    const found = await query<{ id: string; tasks: string }>(
      sql,
      `SELECT p.id, ready.tasks FROM workspaces.projects p CROSS JOIN LATERAL (
          SELECT count(*) AS tasks FROM (
            SELECT 1 FROM workspaces.tasks t WHERE t.owner_id = p.owner_id AND t.project_id = p.id
              AND ${ready} LIMIT ${wokenMax}) one) ready
        WHERE p.id = ANY($1::text[]) AND ready.tasks > 0`,
      [projects],
    );
    for (const { id, tasks } of found) waiters.wake(id, null, Number(tasks));
  }

  /** No caller waits for the result, and the next poll makes up for it. */
  #report(error: unknown): void {
    if (!this.#isClosing) this.#options.onError(error);
  }
}
