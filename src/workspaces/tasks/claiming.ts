/** A claim that may wait for a task, on every home alike. */
import { StoaError } from '../../core/errors.js';
import type { Claim } from '../model.js';
import type { ClaimOutcome } from '../port.js';
import type { ReadyWaiters } from './ready-waiters.js';

export interface ClaimWait {
  waiters: ReadyWaiters;
  projectId: string;
  waitMs: number;
  /** Ends the wait: the caller is gone. */
  signal?: AbortSignal | undefined;
}

/**
 * Looks for a task, and waits if there is none. The place in the line is taken before the last look, so a
 * task that becomes ready after that look wakes the claim. Null when the time is over or the caller is gone.
 */
export async function claimOrWait(
  { waiters, projectId, waitMs, signal }: ClaimWait,
  claim: () => Promise<ClaimOutcome>,
): Promise<Claim | null> {
  const untilMs = performance.now() + waitMs;
  const look = (): Promise<Claim | null> =>
    firstReady(claim).catch((error: unknown) => {
      // The task that it was woken for is for the next in the line.
      if (error instanceof StoaError && error.code === 'fenced') waiters.wake(projectId);
      throw error;
    });
  for (;;) {
    const claimed = await look();
    const leftMs = untilMs - performance.now();
    if (claimed !== null || waitMs === 0 || leftMs <= 0) return claimed;
    const ticket = waiters.enter(projectId);
    const late = await look().catch((error: unknown) => {
      ticket.leave();
      throw error;
    });
    if (late !== null) {
      // A call that came meanwhile is for the next in the line.
      if (!ticket.leave()) waiters.wake(projectId);
      return late;
    }
    if (!(await ticket.wait(leftMs, signal))) return null;
    if (signal?.aborted === true) {
      waiters.wake(projectId);
      return null;
    }
  }
}

async function firstReady(claim: () => Promise<ClaimOutcome>): Promise<Claim | null> {
  let outcome = await claim();
  while (outcome === 'again') outcome = await claim();
  return outcome === 'none' ? null : outcome;
}
