/** Removes expired messages, nonces and blocks in small steps. */
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Block } from '../../../messaging/model.js';
import type { Nonces } from './guards/nonces.js';
import { retentionOf } from '../../../messaging/rooms/visibility.js';
import { expiryTimers, scheduleExpiry, sweepSoon } from './retention-timers.js';
import { oldestLivingMs, removeMessage } from './messages/messages.js';
import { readRoom } from './rooms/rooms.js';
import { directRecords } from './indexes.js';
import { decode, decodeDirect, decodeMessage, endOfTimeMs, families, timeOfKey, timedKey } from './rows.js';

/** One step of the sweeper. */
const messagesPerStep = 256;

export function handleExpiry(kernel: Kernel, nonces: Nonces, onUnblocked: (address: string) => void): void {
  const { limits } = kernel;
  kernel.handleTimer(expiryTimers.room, (tx, room) => expireMessages(tx, limits, room));
  kernel.handleTimer(expiryTimers.inbox, (tx, agent) => expireDirects(tx, limits, agent));
  kernel.handleTimer(expiryTimers.nonces, (tx, bucket) => nonces.drop(tx, bucket));
  kernel.handleTimer(expiryTimers.block, (tx, address) => {
    const value = tx.get(families.blocks, address);
    if (value === undefined || decode<Block>(value).expiresAtMs > tx.nowMs) return;
    tx.delete(families.blocks, address);
    onUnblocked(address.toString());
  });
}

/** All messages, if the room was deleted. */
function expireMessages(tx: Transaction, limits: Limits, roomKey: Buffer): void {
  const room = readRoom(tx, roomKey);
  const retentionSeconds = room === undefined ? 0 : retentionOf(room, limits);
  const before = room === undefined ? endOfTimeMs : oldestLivingMs(tx.nowMs, retentionSeconds);
  const bounds = { gte: timedKey(roomKey, 0), limit: messagesPerStep };
  const due = [...tx.range(families.messages, { ...bounds, lt: timedKey(roomKey, before) })];
  for (const { key, value } of due) removeMessage(tx, decodeMessage(key, value));
  if (due.length === messagesPerStep) {
    sweepSoon(tx, roomKey);
    return;
  }
  // If the room keeps messages longer than when they were posted, their own timers came too early.
  const left = tx.range(families.messages, { ...bounds, lt: timedKey(roomKey, endOfTimeMs), limit: 1 });
  for (const { key } of left) scheduleExpiry(tx, 'room', roomKey, timeOfKey(key) + retentionSeconds * 1000);
}

function expireDirects(tx: Transaction, limits: Limits, agent: Buffer): void {
  const before = timedKey(agent, oldestLivingMs(tx.nowMs, limits.directRetentionSeconds));
  const due = [
    ...tx.range(families.inboxes, { gte: timedKey(agent, 0), lt: before, limit: messagesPerStep }),
  ];
  for (const { key, value } of due) directRecords.remove(tx, decodeDirect(key, value));
  if (due.length === messagesPerStep)
    tx.schedule({ atMs: tx.nowMs, kind: expiryTimers.inbox, reference: agent });
}
