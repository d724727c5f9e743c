/** Rate windows over a restart: written once when the server stops, taken up when it starts. */
import type { Kernel } from '../../kernel/kernel.js';
import type { KeptWindow, SlidingWindows } from '../../messaging/sliding-windows.js';
import { decodeOrUndefined, encode, families } from './messaging-rows.js';

/**
 * A row for each request would make every read a write, so that a server that is killed begins with
 * empty windows; used nonces, spent bytes and blocks are rows of their own and outlive that too.
 */
export async function keepWindows(kernel: Kernel, windows: SlidingWindows, kind: string): Promise<void> {
  const kept: KeptWindow[] = [];
  for (const window of windows.entries(kernel.nowMs())) {
    if (kept.length >= kernel.limits.rateWindowsKeptMax) break;
    kept.push(window);
  }
  if (kept.length === 0 || kernel.root.stopped !== undefined) return;
  await kernel.root.transact((tx) => tx.put(families.rateWindows, Buffer.from(kind), encode(kept)));
}

export async function takeUpWindows(kernel: Kernel, windows: SlidingWindows, kind: string): Promise<void> {
  const key = Buffer.from(kind);
  const value = kernel.root.get(families.rateWindows, key);
  if (value === undefined) return;
  // Windows that cannot be read begin empty, as they do after a crash.
  for (const window of decodeOrUndefined<KeptWindow[]>(value) ?? []) windows.restore(window);
  await kernel.root.transact((tx) => tx.delete(families.rateWindows, key));
}
