/** The two counters that a post changes: the time of the room, and the bytes that its author has left. */
import type { Limits } from '../../core/settings/limits.js';
import { refuse } from '../refusals.js';

/**
 * The next time in a room or an inbox: the time of the clock, or one millisecond after the last message if
 * that is later.
 */
export function nextTsMs(lastTsMs: number, nowMs: number): number {
  return Math.max(nowMs, lastTsMs + 1);
}

/** The bytes that an agent posted in the minute that began at `fromMs`. */
export interface ByteWindow {
  fromMs: number;
  bytes: number;
}

export const byteWindowMs = 60_000;

/** The window, until it ends. A window that begins in the future was opened before the clock was set back. */
function currentWindow(window: ByteWindow | undefined, nowMs: number): ByteWindow | undefined {
  return window !== undefined && window.fromMs <= nowMs && nowMs - window.fromMs < byteWindowMs
    ? window
    : undefined;
}

/** The window after another post. Throws if the post does not fit. */
export function spendBytes(
  window: ByteWindow | undefined,
  bytes: number,
  nowMs: number,
  limits: Limits,
): ByteWindow {
  const current = currentWindow(window, nowMs) ?? { fromMs: nowMs, bytes: 0 };
  const spent = { fromMs: current.fromMs, bytes: current.bytes + bytes };
  if (spent.bytes > limits.messageBytesPerMinuteMax)
    throw byteLimitReached(current.fromMs + byteWindowMs - nowMs);
  return spent;
}

export function byteLimitReached(waitMs: number): Error {
  return refuse('byteRate', { details: { retry_after_seconds: Math.max(1, Math.ceil(waitMs / 1000)) } });
}
