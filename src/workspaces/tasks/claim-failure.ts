/** The error of a failed claim check, the same on every backend. */
import { StoaError } from '../../core/errors.js';
import { type HeldTask, type LeaseEnd, checkHolder } from './tasks.js';

/**
 * Why a fencing number does not hold a task, or undefined. `held` is undefined if the task does not exist.
 */
export function claimFailure(
  taskId: string,
  held: HeldTask | undefined,
  fence: number,
  nowMs: number,
  endOf: LeaseEnd,
): StoaError | undefined {
  if (held === undefined)
    return new StoaError('fenced', `The task ${taskId} does not exist, so fence ${fence} is not valid.`);
  try {
    checkHolder(held, fence, nowMs, endOf, null);
    return undefined;
  } catch (error) {
    if (error instanceof StoaError && error.code === 'fenced') return error;
    throw error;
  }
}
