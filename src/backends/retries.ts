/** How a request to a database server is tried again. */
import { StoaError } from '../errors.js';
import type { Limits } from '../limits.js';

const firstDelayMs = 25;

/** Waits before the next attempt: longer each time, and never the same for two callers. */
export async function backOff(attempts: number, limits: Limits): Promise<void> {
  const most = Math.min(limits.backendDelayMsMax, firstDelayMs * 2 ** Math.min(attempts, 20));
  await new Promise((resolve) => setTimeout(resolve, most * (0.5 + Math.random() / 2)));
}

/** Runs it until it succeeds, fails for good, or has been tried often enough. */
export async function withRetries<T>(limits: Limits, mayPass: (error: unknown) => boolean, attempt: () => Promise<T>): Promise<T> {
  for (let attempts = 1; ; attempts += 1) {
    try {
      return await attempt();
    } catch (error) {
      if (attempts >= limits.backendAttemptsMax || !mayPass(error)) throw error;
      await backOff(attempts, limits);
    }
  }
}

/** Every attempt of a write met somebody else's. */
export function contended(key: string, attempts: number): StoaError {
  return new StoaError('conflict', `Key "${key}" is written so often that ${attempts} attempts met another write.`, { fix: 'Try again later, or spread the writes over several keys.', details: { key } });
}
