/** The retry of a task that ended without a result, as pure functions that every backend calls. */
import { StoaError } from '../../core/errors.js';
import type { Task } from '../model.js';
import { type HeldTask, endsWithoutResult, touched } from './tasks.js';

/**
 * Puts a task that ended without a result into the queue again, with all its attempts. Its fence stays, so a
 * former holder is still refused.
 */
export function retryTask({ task, lease }: HeldTask, reason: string | undefined, nowMs: number): HeldTask {
  if (!endsWithoutResult(task))
    throw new StoaError(
      'conflict',
      `The task is ${task.status}. Only a task that failed or was cancelled can be retried.`,
      { details: { status: task.status } },
    );
  const again: Task = {
    ...task,
    status: 'pending',
    output: null,
    error: null,
    started_at: null,
    completed_at: null,
    bytes_in: 0,
    bytes_out: 0,
    duration: null,
    claimed_by: null,
    attempts: 0,
    run_at: null,
    question_expires_at: null,
    reason:
      reason ?? `It was retried after it had ${task.status === 'failed' ? 'failed' : 'been cancelled'}.`,
  };
  return { task: touched(again, nowMs), lease };
}

/** A task cannot wait for a task that ended without a result. */
export function checkDependency(id: string, { status }: Pick<Task, 'status'>): void {
  if (status === 'failed' || status === 'cancelled')
    throw new StoaError('conflict', `The dependency ${id} is ${status} and will never be completed.`, {
      fix: `Retry ${id} first, or create a task without this dependency.`,
      details: { depends_on: id, status },
    });
}
