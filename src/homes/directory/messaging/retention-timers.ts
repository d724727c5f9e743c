/** When the sweeper looks at a room, an inbox, a bucket of nonces or a blocked address. */
import { kernelFamilies } from '../kernel/families.js';
import { timerKey } from '../kernel/timers/timers.js';
import type { Transaction } from '../kernel/transaction.js';

export const expiryTimers = {
  room: 'messaging/room-expiry',
  inbox: 'messaging/inbox-expiry',
  nonces: 'messaging/nonce-expiry',
  block: 'messaging/block-expiry',
} as const;

/** Messages of one room that expire within this time share a timer: one write for many messages. */
const expiryStepMs = 10_000;

export function scheduleExpiry(
  tx: Transaction,
  kind: 'room' | 'inbox',
  reference: Buffer,
  expiresAtMs: number,
): void {
  const timer = { atMs: roundedExpiryMs(expiresAtMs), kind: expiryTimers[kind], reference };
  // The timer usually exists. Checking is cheaper than writing it again, also into the log.
  if (tx.get(kernelFamilies.timers, timerKey(timer)) === undefined) tx.schedule(timer);
}

/** The sweeper looks at the room at once. */
export function sweepSoon(tx: Transaction, room: Buffer): void {
  tx.schedule({ atMs: tx.nowMs, kind: expiryTimers.room, reference: room });
}

export function roundedExpiryMs(expiresAtMs: number): number {
  return Math.ceil(expiresAtMs / expiryStepMs) * expiryStepMs;
}
