/** How a request to a database server is tried again. */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError } from '../core/errors.js';
import type { Limits } from '../core/settings/limits.js';

const firstDelayMs = 25;

/** Waits before the next attempt: longer each time, and never the same for two callers. */
export async function backOff(attempts: number, limits: Limits): Promise<void> {
  const most = Math.min(limits.backendDelayMsMax, firstDelayMs * 2 ** Math.min(attempts, 20));
  await sleep(most * (0.5 + Math.random() / 2));
}

/**
 * Runs the request until it succeeds, fails permanently, was tried often enough, or its time is over: a
 * server that hangs is not waited for again.
 */
export async function withRetries<T>(
  limits: Limits,
  mayPass: (error: unknown) => boolean,
  attempt: () => Promise<T>,
): Promise<T> {
  const endMs = performance.now() + limits.backendRequestSecondsMax * 1_000;
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (attempts >= limits.backendAttemptsMax || performance.now() >= endMs || !mayPass(error)) throw error;
      await backOff(attempts, limits);
    }
  }
}

/** Other writers changed the document during every attempt. */
export function contended(key: string, attempts: number): StoaError {
  return new StoaError(
    'conflict',
    `Key "${key}" was changed by other writers during all ${attempts} attempts.`,
    { fix: 'Try again later, or spread the writes over several keys.', details: { key } },
  );
}
