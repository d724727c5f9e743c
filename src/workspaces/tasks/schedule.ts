/** When a task may run: its start time, and the pause after a failed attempt. */
import type { Task, TaskRetry } from '../model.js';
import { isoTime } from '../../core/text/iso-time.js';
import type { NewTask } from '../schemas.js';

const retryMaxSecondsDefault = 3_600;

/** The start time to store: null if it is not in the future. */
export function startTime(runAt: string | null | undefined, nowMs: number): string | null {
  if (runAt === undefined || runAt === null) return null;
  const atMs = Date.parse(runAt);
  return atMs > nowMs ? isoTime(atMs) : null;
}

export function retryOf(input: NewTask['retry']): TaskRetry | null {
  if (input === undefined || input === null) return null;
  const { base_seconds, max_seconds } = input;
  return { base_seconds, max_seconds: max_seconds ?? Math.max(base_seconds, retryMaxSecondsDefault) };
}

/**
 * When the next attempt may begin. Up to half of the pause is left out by chance, so that tasks that failed
 * together do not come back together.
 */
export function nextAttempt({ retry }: Task, attempts: number, nowMs: number): string | null {
  if (retry === null) return null;
  const { base_seconds, max_seconds } = retry;
  const pauseSeconds = Math.min(max_seconds, base_seconds * 2 ** Math.max(0, attempts - 1));
  return isoTime(nowMs + pauseSeconds * (1 - Math.random() / 2) * 1_000);
}
