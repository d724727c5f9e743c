/** What is said of a check that does not hold, on every backend alike. */
import { StoaError } from '../core/errors.js';
import { type HeldTask, type LeaseEnd, renewLease } from './tasks.js';

/** Why a number does not hold a task: what a late write would be told. `held` is undefined where there is no such task. */
export function claimFailure(
  taskId: string,
  held: HeldTask | undefined,
  fence: number,
  nowMs: number,
  endOf: LeaseEnd,
): StoaError | undefined {
  if (held === undefined) return new StoaError('fenced', `Fence ${fence} does not hold the task ${taskId}.`);
  try {
    renewLease(held, fence, nowMs, endOf);
    return undefined;
  } catch (error) {
    if (error instanceof StoaError && error.code === 'fenced') return error;
    throw error;
  }
}
