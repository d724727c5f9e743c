/** Tasks through a server: create, claim, keep alive with heartbeats, complete. No Node built-ins. */
import type { AnswerOf, CallSettings, InputOf } from '../api/call.js';
import { tasks } from '../api/workspaces/operations.js';
import { type Methods, methodsOf } from './methods.js';
import { Renewal, heldSince } from './renewal.js';
import type { Transport } from './transport/transport.js';

export interface ClaimSettings extends CallSettings {
  /** Seconds to wait for a task; without it the answer comes at once. */
  wait?: number | undefined;
  leaseSeconds?: number | undefined;
  /** The agent that claims and reports; the default is the client's agent. */
  agentId?: string | undefined;
  /** Only a task that has all these labels. */
  labels?: string[] | undefined;
  /** Only a task that has none of these labels. */
  withoutLabels?: string[] | undefined;
  /** Only a task whose labels are all in this list. */
  skills?: string[] | undefined;
}

type Task = AnswerOf<'tasks.get'>;
type Claim = NonNullable<AnswerOf<'tasks.claim'>>;
type Result<Verb extends 'complete' | 'fail'> = Omit<InputOf<`tasks.${Verb}`>, 'task_id' | 'fence'>;

/** The longest wait of one request; a longer wait is several requests. */
const waitSecondsEach = 20;

export interface TasksClient extends Omit<Methods<'tasks'>, 'claim'> {
  /**
   * Claims the first ready task of a project, or returns null if none is ready in time. Heartbeats keep
   * the claim until it is completed or failed. After a crash, `complete` and `fail` with the task's id
   * and fence report the result of an earlier claim.
   *
   * @example
   * const claim = await stoa.tasks.claim(project.id, { wait: 60 });
   * if (claim !== null) {
   *   const output = await run(claim.task.command, { signal: claim.signal });
   *   await claim.complete({ output });
   * }
   */
  claim(projectId: string, settings?: ClaimSettings): Promise<ClaimedTask | null>;
}

export function tasksClient(transport: Transport): TasksClient {
  const calls = methodsOf(transport, 'tasks', tasks);
  return {
    ...calls,
    claim: async (projectId, { wait = 0, leaseSeconds, agentId, signal, ...filters } = {}) => {
      const own = agentId === undefined ? calls : methodsOf(transport.as(agentId), 'tasks', tasks);
      const untilMs = performance.now() + wait * 1_000;
      for (;;) {
        const leftSeconds = Math.max(0, untilMs - performance.now()) / 1_000;
        const body = {
          wait: Math.min(waitSecondsEach, leftSeconds),
          lease_seconds: leaseSeconds,
          labels: filters.labels,
          without_labels: filters.withoutLabels,
          skills: filters.skills,
        };
        const sentMs = performance.now();
        const claim = await own.claim(projectId, body, { signal });
        if (claim !== undefined) {
          const { task, lease } = claim;
          const takenMs = await heldSince({ sentMs, lifeMs: lifeMsOf(claim) }, () =>
            own.heartbeat(task.id, { fence: lease.fence }, { signal }),
          );
          if (takenMs !== undefined) return new ClaimedTask(own, claim, takenMs);
        }
        if (performance.now() >= untilMs) return null;
      }
    },
  };
}

/** Both times are the server's, so the clock of this machine does not matter. */
function lifeMsOf({ task, lease }: Claim): number {
  return Date.parse(lease.expires_at) - Date.parse(task.started_at ?? lease.expires_at);
}

/** A task that this caller holds. When it loses the task, it dispatches `lost` and aborts its signal. */
export class ClaimedTask extends Renewal {
  readonly task: Task;
  readonly fence: number;
  readonly #calls: Methods<'tasks'>;

  constructor(calls: Methods<'tasks'>, claim: Claim, takenMs: number) {
    const { task, lease } = claim;
    super({ lifeMs: lifeMsOf(claim), takenMs }, async (signal) => {
      await calls.heartbeat(task.id, { fence: lease.fence }, { signal });
      return undefined;
    });
    this.#calls = calls;
    this.task = task;
    this.fence = lease.fence;
  }

  /** The same report is accepted again, so the client repeats it if the answer was lost. */
  async complete(result: Result<'complete'> = {}, { signal }: CallSettings = {}): Promise<Task> {
    const task = await this.#calls.complete(this.task.id, { ...result, fence: this.fence }, { signal });
    this.abandon();
    return task;
  }

  /** With `retry` the task returns to the queue if it has attempts left. */
  async fail(result: Result<'fail'> = {}, { signal }: CallSettings = {}): Promise<Task> {
    const task = await this.#calls.fail(this.task.id, { ...result, fence: this.fence }, { signal });
    this.abandon();
    return task;
  }

  /** Stops the heartbeats without a report; the claim expires. */
  abandon(): void {
    this.stopRenewing();
  }
}
