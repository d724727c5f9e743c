/** A claim that may wait for a task, on every home alike. */
import type { Claim } from '../model.js';
import type { ClaimOutcome } from '../port.js';
import type { ClaimFilter } from './claim-filter.js';
import type { ReadyWaiters, Wake } from './ready-waiters.js';

export interface ClaimWait {
  waiters: ReadyWaiters;
  projectId: string;
  filter: ClaimFilter;
  waitMs: number;
  /** Ends the wait: the caller is gone. */
  signal?: AbortSignal | undefined;
}

/**
 * Looks for a task, and waits if there is none. The place in the line is taken before the last look, so a
 * task that becomes ready after that look wakes the claim. Null when the time is over or the caller is gone.
 */
export async function claimOrWait(
  { waiters, projectId, filter, waitMs, signal }: ClaimWait,
  claim: () => Promise<ClaimOutcome>,
): Promise<Claim | null> {
  const untilMs = performance.now() + waitMs;
  let woken: Wake | null = null;
  /** The task that this claim was woken for is for the next in the line. */
  const passOn = (wake: Wake | null): void => {
    if (wake !== null) waiters.wake(projectId, wake.labels);
  };
  const look = (): Promise<Claim | null> =>
    firstReady(claim).catch((error: unknown) => {
      passOn(woken);
      throw error;
    });
  for (;;) {
    const claimed = await look();
    if (claimed !== null) {
      if (!isSame(woken?.labels, claimed.task.labels)) passOn(woken);
      return claimed;
    }
    const leftMs = untilMs - performance.now();
    if (waitMs === 0 || leftMs <= 0) return null;
    const ticket = waiters.enter(projectId, filter);
    woken = null;
    const late = await look().catch((error: unknown) => {
      passOn(ticket.leave());
      throw error;
    });
    if (late !== null) {
      passOn(ticket.leave());
      return late;
    }
    woken = await ticket.wait(leftMs, signal);
    if (woken === null) return null;
    if (signal?.aborted === true) {
      passOn(woken);
      return null;
    }
  }
}

function isSame(a: readonly string[] | null | undefined, b: readonly string[]): boolean {
  return a?.join() === b.join();
}

async function firstReady(claim: () => Promise<ClaimOutcome>): Promise<Claim | null> {
  let outcome = await claim();
  while (outcome === 'again') outcome = await claim();
  return outcome === 'none' ? null : outcome;
}
