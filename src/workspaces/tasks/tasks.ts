/** What may happen to a task and its lease, as pure functions that every backend calls. */
import { createHash } from 'node:crypto';
import { StoaError } from '../../core/errors.js';
import { given } from '../../core/given.js';
import type { Limits } from '../../core/settings/limits.js';
import { isoTime } from '../../core/text/iso-time.js';
import { type ClaimLease, type Task, type TaskLease, heldStatuses, isOpen } from '../model.js';
import type { TaskEvent } from '../changes.js';
import type { Reporter } from '../port.js';
import type { CompleteRequest, FailRequest, NewTask, TaskPatch } from '../schemas.js';
import { checkTaskTransition } from '../rules/transitions.js';
import { labelSet } from './claim-filter.js';
import { nextAttempt, retryOf, startTime } from './schedule.js';

/** A task with the claim on it, if it was ever claimed. */
export interface HeldTask {
  task: Task;
  lease: TaskLease | undefined;
}

/** A task that an agent holds. */
export interface ClaimedTask extends HeldTask {
  lease: TaskLease;
}

/** When a lease really ends. A backend that records outages adds them. */
export type LeaseEnd = (lease: TaskLease) => number;

/** Decides what happens to a task. `undefined`: nothing, because it was done before. */
export type TaskRule = (held: HeldTask, nowMs: number, endOf: LeaseEnd) => HeldTask | undefined;

export function newTask(id: string, sessionId: string, input: NewTask, limits: Limits, nowMs: number): Task {
  const now = isoTime(nowMs);
  return {
    id,
    session_id: sessionId,
    command: input.command,
    status: 'pending',
    output: null,
    error: null,
    started_at: null,
    completed_at: null,
    bytes_in: 0,
    bytes_out: 0,
    duration: null,
    depends_on: [...new Set(input.depends_on)],
    priority: input.priority ?? 0,
    claimed_by: null,
    attempts: 0,
    max_attempts: input.max_attempts ?? limits.taskAttempts,
    reason: null,
    labels: labelSet(input.labels ?? []),
    run_at: startTime(input.run_at, nowMs),
    retry: retryOf(input.retry),
    question: null,
    asked_at: null,
    question_expires_at: null,
    answer: null,
    answered_at: null,
    answered_by: null,
    created_at: now,
    updated_at: now,
    version: 1,
  };
}

export function changeTask(task: Task, patch: TaskPatch, nowMs: number): Task {
  if (task.status !== 'pending') {
    throw new StoaError('conflict', `The task is ${task.status}. Only a pending task can be changed.`, {
      details: { status: task.status },
    });
  }
  const changed = {
    ...given(patch),
    labels: patch.labels === undefined ? task.labels : labelSet(patch.labels),
    run_at: patch.run_at === undefined ? task.run_at : startTime(patch.run_at, nowMs),
    retry: patch.retry === undefined ? task.retry : retryOf(patch.retry),
  };
  return touched({ ...task, ...changed }, nowMs);
}

/** The start time of a pending task is reached. */
export function startTimeReached(task: Task, nowMs: number): Task {
  return touched({ ...task, run_at: null }, nowMs);
}

export function claimTask(
  { task, lease }: HeldTask,
  holder: string,
  leaseSeconds: number,
  nowMs: number,
): ClaimedTask {
  checkTaskTransition(task.status, 'running');
  return {
    task: {
      ...task,
      status: 'running',
      claimed_by: holder,
      started_at: isoTime(nowMs),
      version: task.version + 1,
      updated_at: isoTime(nowMs),
    },
    lease: {
      holder,
      fence: (lease?.fence ?? 0) + 1,
      leaseSeconds,
      renewedAtMs: nowMs,
      expiresAtMs: nowMs + leaseSeconds * 1_000,
      resultDigest: null,
    },
  };
}

/** A sign of life: the lease ends later. The task itself does not change. */
export function renewLease(
  held: HeldTask,
  fence: number,
  nowMs: number,
  endOf: LeaseEnd,
  by: Reporter,
): TaskLease {
  return renewed(checkHolder(held, fence, nowMs, endOf, by), nowMs);
}

export function renewed(lease: TaskLease, nowMs: number): TaskLease {
  return { ...lease, renewedAtMs: nowMs, expiresAtMs: nowMs + lease.leaseSeconds * 1_000 };
}

/** The holder is lost: its task returns. A task with an open question keeps waiting, without a holder. */
export function loseHolder(held: HeldTask, reason: string, nowMs: number): HeldTask {
  const { task, lease } = held;
  if (task.status !== 'input_required') return returnTask(held, reason, nowMs);
  return unheld({ ...task, claimed_by: null, reason }, lease, nowMs);
}

/** Returns the task of a lost holder for another attempt, or fails it when no attempt is left. */
export function returnTask({ task, lease }: HeldTask, reason: string, nowMs: number): HeldTask {
  const attempts = task.attempts + 1;
  const exhausted = attempts >= task.max_attempts;
  checkTaskTransition(task.status, exhausted ? 'failed' : 'pending');
  const back: Task = exhausted
    ? {
        ...ended(task, 'failed', nowMs),
        attempts,
        error: task.error ?? reason,
        reason: `${reason} No attempt is left of ${task.max_attempts}.`,
      }
    : {
        ...task,
        status: 'pending',
        claimed_by: null,
        started_at: null,
        attempts,
        reason,
        run_at: nextAttempt(task, attempts, nowMs),
      };
  return unheld(back, lease, nowMs);
}

/** The holder's result. `undefined` means that this very write was done before. */
export function completeTask(input: CompleteRequest, by: Reporter): TaskRule {
  return reported('complete', input, by, ({ task }, nowMs) => {
    const completed = { ...ended(task, 'completed', nowMs), ...resultOf(task, input), error: null };
    return touched(completed, nowMs);
  });
}

/**
 * Fails a task permanently, unless an attempt is left and the holder asks for it or the task has `retry`.
 * `undefined`: done before.
 */
export function failTask(input: FailRequest, by: Reporter): TaskRule {
  return reported('fail', input, by, ({ task, lease }, nowMs) => {
    const error = input.error ?? 'The holder reported a failure.';
    const failing = { ...task, ...resultOf(task, input), error };
    if (input.retry ?? task.retry !== null) {
      const cause = error === '' ? '.' : `: ${error}`;
      const reason = `${lease.holder} gave it back${cause}`;
      return returnTask({ task: failing, lease }, reason, nowMs).task;
    }
    return touched({ ...ended(failing, 'failed', nowMs), attempts: task.attempts + 1, reason: error }, nowMs);
  });
}

/** A report of the holder, which ends its claim. The same report again changes nothing. */
function reported(
  verb: 'complete' | 'fail',
  input: CompleteRequest | FailRequest,
  by: Reporter,
  change: (held: ClaimedTask, nowMs: number) => Task,
): TaskRule {
  const resultDigest = digestOf(verb, input);
  return (held, nowMs, endOf) => {
    if (isRepeat(held, input.fence, resultDigest)) return undefined;
    const lease = checkHolder(held, input.fence, nowMs, endOf, by);
    checkAnswered(held.task);
    const task = change({ task: held.task, lease }, nowMs);
    return { task, lease: { ...releasedLease(lease), resultDigest } };
  };
}

/** Cancels a task, even if an agent holds it. `undefined` means that it was cancelled already. */
export function cancelTask(
  { task, lease }: HeldTask,
  reason: string | undefined,
  nowMs: number,
): HeldTask | undefined {
  if (task.status === 'cancelled') return undefined;
  checkTaskTransition(task.status, 'cancelled');
  const cancelled = { ...ended(task, 'cancelled', nowMs), reason: reason ?? 'Cancelled.' };
  return unheld(cancelled, lease, nowMs);
}

/**
 * Takes a held task from its holder and returns it to the queue. The holder did nothing wrong, so the attempt
 * does not count. An open question ends.
 */
export function releaseTask({ task, lease }: HeldTask, reason: string | undefined, nowMs: number): HeldTask {
  if (!heldStatuses.includes(task.status))
    throw new StoaError(
      'conflict',
      `The task is ${task.status}. Only a task that an agent holds can be released.`,
      { details: { status: task.status } },
    );
  const back: Task = {
    ...task,
    status: 'pending',
    claimed_by: null,
    started_at: null,
    question_expires_at: null,
    reason: reason ?? `It was taken from ${task.claimed_by ?? 'its holder'}.`,
  };
  return unheld(back, lease, nowMs);
}

/** The kind of change to announce: the new status, or what happened to a task that keeps it. */
export function eventOf(before: Task, after: Task): TaskEvent {
  if (after.status === before.status) return 'updated';
  return after.status === 'pending' ? 'returned' : after.status;
}

/** What a change of a task says about the task before it. */
export function factsOf({ status, claimed_by }: Task): Record<string, string> {
  return { from: status, ...(claimed_by !== null && { holder: claimed_by }) };
}

/** The reason of a pending task that is cancelled because a dependency failed or was deleted. */
export function blockedForever(dependency: string): string {
  return `It depends on ${dependency}, which will not be completed.`;
}

export function lapsedReason(lease: TaskLease): string {
  return `The lease of ${lease.holder} (fence ${lease.fence}) expired.`;
}

export function presenceLostReason(holder: string): string {
  return `The presence of ${holder} was lost.`;
}

export function claimLease(lease: TaskLease): ClaimLease {
  return { fence: lease.fence, expires_at: isoTime(lease.expiresAtMs) };
}

/** When the claim on a listed task ends, unless its holder renews it. */
export function leaseEnd(lease: TaskLease | undefined): string | null {
  return lease === undefined || lease.holder === null ? null : isoTime(lease.expiresAtMs);
}

/** The lease, if `fence` belongs to its current holder. Throws `fenced` otherwise: the write is too late. */
export function checkHolder(
  { task, lease }: HeldTask,
  fence: number,
  nowMs: number,
  endOf: LeaseEnd,
  by: Reporter,
): TaskLease {
  const details = { status: task.status, fence, current_fence: lease?.fence ?? null };
  if (lease === undefined || lease.fence !== fence) {
    throw new StoaError(
      'fenced',
      `Fence ${fence} is not the number of the current claim on the task ${task.id}.`,
      {
        fix: 'Discard the work and claim another task.',
        details,
      },
    );
  }
  if (!heldStatuses.includes(task.status) || lease.holder === null) {
    throw new StoaError('fenced', `The claim with fence ${fence} is over: the task is ${task.status}.`, {
      fix: 'Discard the work and claim another task.',
      details,
    });
  }
  if (endOf(lease) <= nowMs) {
    throw new StoaError('fenced', `The lease with fence ${fence} has expired.`, {
      fix: 'Discard the work and claim another task. Send heartbeats more often.',
      details,
    });
  }
  if (by !== null && !by.includes(lease.holder)) {
    throw new StoaError(
      'forbidden',
      `The task ${task.id} is claimed by "${lease.holder}", not by "${by.join(', ')}".`,
      {
        fix: `Only the holder can do this: act as "${lease.holder}" (Stoa-Agent, --agent). Others can cancel or release the task.`,
        details: { holder: lease.holder },
      },
    );
  }
  return lease;
}

/** A holder that asked reports nothing before the answer. */
function checkAnswered({ id, status }: Task): void {
  if (status === 'input_required')
    throw new StoaError('conflict', `The task ${id} waits for an answer to its question.`, {
      fix: 'Wait for the answer, or cancel the task.',
      details: { status },
    });
}

function isRepeat({ task, lease }: HeldTask, fence: number, digest: string): boolean {
  return (
    lease !== undefined &&
    lease.fence === fence &&
    lease.resultDigest === digest &&
    !heldStatuses.includes(task.status)
  );
}

/** The changed task. No agent holds it now. */
export function unheld(task: Task, lease: TaskLease | undefined, nowMs: number): HeldTask {
  return { task: touched(task, nowMs), lease: lease && releasedLease(lease) };
}

export function releasedLease(lease: TaskLease): TaskLease {
  return { ...lease, holder: null };
}

export function ended(task: Task, status: 'completed' | 'failed' | 'cancelled', nowMs: number): Task {
  const durationMs = task.started_at === null ? null : Math.max(0, nowMs - Date.parse(task.started_at));
  return {
    ...task,
    status,
    completed_at: isoTime(nowMs),
    duration: durationMs === null ? null : durationMs / 1_000,
  };
}

function resultOf(
  task: Task,
  input: CompleteRequest | FailRequest,
): Pick<Task, 'output' | 'bytes_in' | 'bytes_out'> {
  return {
    output: input.output === undefined ? task.output : input.output,
    bytes_in: input.bytes_in ?? task.bytes_in,
    bytes_out: input.bytes_out ?? Buffer.byteLength(input.output ?? ''),
  };
}

export function touched(task: Task, nowMs: number): Task {
  return { ...task, version: task.version + 1, updated_at: isoTime(nowMs) };
}

function digestOf(verb: string, input: object): string {
  const fields = Object.entries(input)
    .filter(([, value]) => value !== undefined)
    .toSorted(([a], [b]) => compareText(a, b));
  return createHash('sha256')
    .update(JSON.stringify([verb, fields]))
    .digest('base64url');
}

function compareText(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** Whether a task that ended lets its dependants become ready. */
export function satisfies({ status }: Task): boolean {
  return status === 'completed';
}

export function endsWithoutResult(task: Task): boolean {
  return !isOpen(task.status) && task.status !== 'completed';
}
