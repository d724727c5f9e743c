/** Tasks through a server: made, claimed, kept alive by heartbeats, completed. No Node built-ins. */
import type { Claim, Task, TaskStatus } from '../workspaces/model.js';
import type { CompleteRequest, FailRequest, NewTask, TaskPatch } from '../workspaces/schemas.js';
import type { CallSettings, Page } from './data.js';
import { Renewal } from './renewal.js';
import type { Transport } from './transport.js';
import {
  type ChangeSettings,
  type CreateSettings,
  type PageSettings,
  change,
  creation,
  projectPath,
  sessionPath,
} from './workspaces.js';

export interface ClaimSettings extends CallSettings {
  /** Seconds to wait for a task; without it the answer comes at once. */
  wait?: number | undefined;
  leaseSeconds?: number | undefined;
  /** Who claims; the client's agent unless given. */
  agentId?: string | undefined;
}

/** A single request waits no longer than this; a longer wait is several. */
const waitSecondsEach = 20;

export class TasksClient {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  create(sessionId: string, input: NewTask, settings: CreateSettings = {}): Promise<Task> {
    return this.#transport.call('POST', `${sessionPath(sessionId)}/tasks`, {
      body: input,
      ...creation(settings),
    });
  }

  get(id: string, { signal }: CallSettings = {}): Promise<Task> {
    return this.#transport.call('GET', taskPath(id), { signal });
  }

  list(sessionId: string, { signal, ...query }: PageSettings<TaskStatus> = {}): Promise<Page<Task>> {
    return this.#transport.call('GET', `${sessionPath(sessionId)}/tasks`, { query, signal });
  }

  /** What could be claimed now, in the order in which it would be. */
  ready(
    projectId: string,
    { signal, ...query }: Omit<PageSettings<never>, 'status'> = {},
  ): Promise<Page<Task>> {
    return this.#transport.call('GET', `${projectPath(projectId)}/tasks/ready`, { query, signal });
  }

  update(id: string, patch: TaskPatch, settings: ChangeSettings = {}): Promise<Task> {
    return this.#transport.call('PATCH', taskPath(id), { body: patch, ...change(settings) });
  }

  async delete(id: string, settings: ChangeSettings = {}): Promise<void> {
    await this.#transport.call('DELETE', taskPath(id), change(settings));
  }

  cancel(id: string, input: { reason?: string } = {}, { signal }: CallSettings = {}): Promise<Task> {
    return this.#transport.call('POST', `${taskPath(id)}/cancel`, { body: input, signal, repeatable: true });
  }

  /**
   * The first ready task of a project, for this caller alone, or null when there is none in time.
   * Heartbeats keep the claim until it is completed or failed.
   *
   * @example
   * const claim = await stoa.tasks.claim(project.id, { wait: 60 });
   * if (claim !== null) {
   *   const output = await run(claim.task.command, { signal: claim.signal });
   *   await claim.complete({ output });
   * }
   */
  async claim(
    projectId: string,
    { wait = 0, leaseSeconds, agentId, signal }: ClaimSettings = {},
  ): Promise<ClaimedTask | null> {
    const untilMs = Date.now() + wait * 1_000;
    for (;;) {
      const leftSeconds = Math.max(0, untilMs - Date.now()) / 1_000;
      const body = {
        wait: Math.min(waitSecondsEach, leftSeconds),
        lease_seconds: leaseSeconds,
        agent_id: agentId,
      };
      const claim = await this.#transport.call<Claim | undefined>(
        'POST',
        `${projectPath(projectId)}/tasks/claim`,
        { body, signal },
      );
      if (claim !== undefined) return new ClaimedTask(this.#transport, claim);
      if (Date.now() >= untilMs) return null;
    }
  }
}

/** A task that this caller holds. It tells with `lost`, and with its signal, when it holds it no more. */
export class ClaimedTask extends Renewal {
  readonly task: Task;
  readonly fence: number;
  readonly #transport: Transport;

  constructor(transport: Transport, { task, lease }: Claim) {
    // Both times are the server's, so the clock of this machine does not matter.
    const lifeMs = Date.parse(lease.expires_at) - Date.parse(task.started_at ?? lease.expires_at);
    super({ lifeMs, takenMs: Date.now() }, (signal) =>
      transport.call('POST', `${taskPath(task.id)}/heartbeat`, {
        body: { fence: lease.fence },
        signal,
        repeatable: true,
      }),
    );
    this.#transport = transport;
    this.task = task;
    this.fence = lease.fence;
  }

  async complete(result: Omit<CompleteRequest, 'fence'> = {}, settings: CallSettings = {}): Promise<Task> {
    return this.#end('complete', result, settings);
  }

  /** With `retry` the task goes back to the others while it has attempts left. */
  async fail(result: Omit<FailRequest, 'fence'> = {}, settings: CallSettings = {}): Promise<Task> {
    return this.#end('fail', result, settings);
  }

  /** Stops the heartbeats without a word; the claim lapses by itself. */
  abandon(): void {
    this.letGo();
  }

  /** The same report again is no error, so a lost answer is asked for again. */
  async #end(verb: 'complete' | 'fail', result: object, { signal }: CallSettings): Promise<Task> {
    const task = await this.#transport.call<Task>('POST', `${taskPath(this.task.id)}/${verb}`, {
      body: { ...result, fence: this.fence },
      signal,
      repeatable: true,
    });
    this.abandon();
    return task;
  }
}

function taskPath(id: string): string {
  return `/v1/tasks/${encodeURIComponent(id)}`;
}
