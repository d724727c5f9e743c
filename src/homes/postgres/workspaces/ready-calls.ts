/**
 * Servers tell each other that tasks became ready, so that claims which wait are woken. It is a hint: it goes out after
 * the commit, many projects in one statement (NOTIFY takes a lock over all commits), and one that is lost costs a
 * look, which every server takes now and then for the claims that wait with it.
 */
import { randomUUID } from 'node:crypto';
import type { ReadyWaiters } from '../../../workspaces/tasks/ready-waiters.js';
import { type PostgresSql, listen, query } from '../connection.js';

const channel = 'stoa_tasks_ready';
/** Within this time a claim finds a task of which it was not told. */
const lookEveryMs = 1_000;
/** Claims of one project that a look wakes. */
const wokenMax = 100;

export interface ReadyCallsOptions {
  readonly sql: PostgresSql;
  readonly waiters: ReadyWaiters;
  readonly onError: (error: unknown) => void;
}

export class ReadyCalls {
  readonly #options: ReadyCallsOptions;
  /** Tells calls of this server from the others'. */
  readonly #server = randomUUID();
  #waiting = new Map<string, number>();
  #sending: Promise<void> | undefined;
  #looking: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #isClosing = false;

  constructor(options: ReadyCallsOptions) {
    this.#options = options;
  }

  async start(): Promise<void> {
    const { sql, waiters } = this.#options;
    // A connection that was lost may have missed a call: after it is back, everybody looks again.
    await listen(
      sql,
      channel,
      (payload) => this.#heard(payload),
      () => waiters.wakeAll(),
    );
    this.#timer = setInterval(() => {
      this.#looking = this.#looking.then(() => this.#look());
    }, lookEveryMs);
    this.#timer.unref();
  }

  /** Wakes claims that wait here, and calls the other servers. */
  call(ready: ReadonlyMap<string, number>): void {
    for (const [projectId, tasks] of ready) {
      this.#options.waiters.wake(projectId, tasks);
      this.#waiting.set(projectId, (this.#waiting.get(projectId) ?? 0) + tasks);
    }
    if (ready.size > 0) this.#sending ??= this.#send();
  }

  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#timer);
    await this.#sending;
    await this.#looking;
  }

  /** Calls that come while a statement is under way share the next one. */
  async #send(): Promise<void> {
    while (this.#waiting.size > 0) {
      const ready = this.#waiting;
      this.#waiting = new Map();
      const payloads = Array.from(ready, ([projectId, tasks]) => `${this.#server} ${projectId} ${tasks}`);
      await this.#hint(() =>
        query(this.#options.sql, 'SELECT pg_notify($1, call) FROM unnest($2::text[]) AS call', [
          channel,
          payloads,
        ]),
      );
    }
    this.#sending = undefined;
  }

  #heard(payload: string): void {
    const [server, projectId = '', tasks] = payload.split(' ');
    if (server !== this.#server) this.#options.waiters.wake(projectId, Number(tasks));
  }

  /** Looks for ready tasks of the projects in which claims wait here. */
  async #look(): Promise<void> {
    const { sql, waiters } = this.#options;
    const projects = waiters.projects;
    if (projects.length === 0 || this.#isClosing) return;
    await this.#hint(async () => {
      const found = await query<{ id: string; tasks: string }>(
        sql,
        `SELECT p.id, ready.tasks FROM workspaces.projects p CROSS JOIN LATERAL (
            SELECT count(*) AS tasks FROM (SELECT 1 FROM workspaces.tasks t WHERE t.owner_id = p.owner_id AND t.project_id = p.id
              AND t.status = 'pending' AND t.blockers = 0 LIMIT ${wokenMax}) one) ready
          WHERE p.id = ANY($1::text[]) AND ready.tasks > 0`,
        [projects],
      );
      for (const { id, tasks } of found) waiters.wake(id, Number(tasks));
    });
  }

  /** Nobody waits for the answer, and the next look makes up for it. */
  async #hint(act: () => Promise<unknown>): Promise<void> {
    try {
      await act();
    } catch (error) {
      if (!this.#isClosing) this.#options.onError(error);
    }
  }
}
