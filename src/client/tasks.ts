/** Tasks through a server: made, claimed, kept alive by heartbeats, completed. No Node built-ins. */
import { StoaError } from '../errors.js';
import type { Claim, ClaimLease, Task, TaskStatus } from '../workspaces/model.js';
import type { CompleteRequest, FailRequest, NewTask, TaskPatch } from '../workspaces/schemas.js';
import type { CallSettings, Page } from './data.js';
import type { Transport } from './transport.js';
import { type ChangeSettings, type CreateSettings, type PageSettings, change, creation, projectPath, sessionPath } from './workspaces.js';

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
    return this.#transport.call('POST', `${sessionPath(sessionId)}/tasks`, { body: input, ...creation(settings) });
  }

  get(id: string, { signal }: CallSettings = {}): Promise<Task> {
    return this.#transport.call('GET', taskPath(id), { signal });
  }

  list(sessionId: string, { signal, ...query }: PageSettings<TaskStatus> = {}): Promise<Page<Task>> {
    return this.#transport.call('GET', `${sessionPath(sessionId)}/tasks`, { query, signal });
  }

  /** What could be claimed now, in the order in which it would be. */
  ready(projectId: string, { signal, ...query }: Omit<PageSettings<never>, 'status'> = {}): Promise<Page<Task>> {
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
  async claim(projectId: string, { wait = 0, leaseSeconds, agentId, signal }: ClaimSettings = {}): Promise<ClaimedTask | null> {
    const untilMs = Date.now() + wait * 1_000;
    for (;;) {
      const leftSeconds = Math.max(0, untilMs - Date.now()) / 1_000;
      const body = { wait: Math.min(waitSecondsEach, leftSeconds), lease_seconds: leaseSeconds, agent_id: agentId };
      const claim = await this.#transport.call<Claim | undefined>('POST', `${projectPath(projectId)}/tasks/claim`, { body, signal });
      if (claim !== undefined) return new ClaimedTask(this.#transport, claim);
      if (Date.now() >= untilMs) return null;
    }
  }
}

/** The claim is lost: its lease lapsed, or the task was cancelled or given to another. */
export class LostEvent extends Event {
  constructor(readonly error: StoaError) {
    super('lost');
  }
}

/** A task that this caller holds. It tells with `lost`, and with its signal, when it holds it no more. */
export class ClaimedTask extends EventTarget {
  readonly task: Task;
  readonly fence: number;
  readonly #transport: Transport;
  readonly #leaseMs: number;
  readonly #lost = new AbortController();
  #heldUntilMs: number;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(transport: Transport, { task, lease }: Claim) {
    super();
    this.#transport = transport;
    this.task = task;
    this.fence = lease.fence;
    // Both times are the server's, so the clock of this machine does not matter.
    this.#leaseMs = Math.max(1, Date.parse(lease.expires_at) - Date.parse(task.started_at ?? lease.expires_at));
    this.#heldUntilMs = Date.now() + this.#leaseMs;
    this.#schedule();
  }

  /** Aborted when the claim is lost: pass it to whatever does the work. */
  get signal(): AbortSignal {
    return this.#lost.signal;
  }

  async complete(result: Omit<CompleteRequest, 'fence'> = {}): Promise<Task> {
    return this.#end('complete', result);
  }

  /** With `retry` the task goes back to the others while it has attempts left. */
  async fail(result: Omit<FailRequest, 'fence'> = {}): Promise<Task> {
    return this.#end('fail', result);
  }

  /** Stops the heartbeats without a word; the claim lapses by itself. */
  abandon(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  /** The same report again is no error, so a lost answer is asked for again. */
  async #end(verb: 'complete' | 'fail', result: object): Promise<Task> {
    const task = await this.#transport.call<Task>('POST', `${taskPath(this.task.id)}/${verb}`, { body: { ...result, fence: this.fence }, repeatable: true });
    this.abandon();
    return task;
  }

  #schedule(): void {
    this.#timer = setTimeout(() => void this.#beat(), this.#leaseMs / 3);
  }

  async #beat(): Promise<void> {
    const timer = this.#timer;
    const sentMs = Date.now();
    try {
      await this.#transport.call<{ lease: ClaimLease }>('POST', `${taskPath(this.task.id)}/heartbeat`, { body: { fence: this.fence } });
      this.#heldUntilMs = sentMs + this.#leaseMs;
    } catch (error) {
      const isFinal = error instanceof StoaError && (error.code === 'fenced' || error.code === 'not_found');
      if (this.#timer === timer && (isFinal || Date.now() >= this.#heldUntilMs)) {
        this.#lose(error instanceof StoaError ? error : new StoaError('unreachable', 'The lease could not be renewed.', { cause: error }));
      }
    }
    // Completed or lost meanwhile: nothing to keep.
    if (this.#timer === timer) this.#schedule();
  }

  #lose(error: StoaError): void {
    this.abandon();
    this.#lost.abort(error);
    this.dispatchEvent(new LostEvent(error));
  }
}

function taskPath(id: string): string {
  return `/v1/tasks/${encodeURIComponent(id)}`;
}
