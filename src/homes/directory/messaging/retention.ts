/** Removes expired messages, nonces and word lists in small steps. */
import type { Kernel } from '../kernel/kernel.js';
import type { Transaction } from '../kernel/transaction.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { Block } from '../../../messaging/model.js';
import { dropNonces } from './guards/nonces.js';
import { expiryTimers } from './retention-timers.js';
import { oldestLivingMs, removeMessage } from './rooms.js';
import { directRecords } from './indexes.js';
import { decode, decodeDirect, decodeMessage, families, timedKey } from './rows.js';
import { expireLists } from './search/words.js';

/** One step of the sweeper. */
const messagesPerStep = 256;

export function handleExpiry(kernel: Kernel, onUnblocked: (address: string) => void): void {
  const { limits } = kernel;
  kernel.handleTimer(expiryTimers.room, (tx, room) => expireMessages(tx, limits, room));
  kernel.handleTimer(expiryTimers.inbox, (tx, agent) => expireDirects(tx, limits, agent));
  kernel.handleTimer(expiryTimers.words, (tx, batch) =>
    expireLists(tx, batch, limits.messageRetentionSeconds),
  );
  kernel.handleTimer(expiryTimers.nonces, (tx, bucket) => dropNonces(tx, bucket));
  kernel.handleTimer(expiryTimers.block, (tx, address) => {
    const value = tx.get(families.blocks, address);
    if (value === undefined || decode<Block>(value).expiresAtMs > tx.nowMs) return;
    tx.delete(families.blocks, address);
    onUnblocked(address.toString());
  });
}

function expireMessages(tx: Transaction, limits: Limits, room: Buffer): void {
  const before = timedKey(room, oldestLivingMs(tx.nowMs, limits.messageRetentionSeconds));
  const due = [
    ...tx.range(families.messages, { gte: timedKey(room, 0), lt: before, limit: messagesPerStep }),
  ];
  for (const { key, value } of due) removeMessage(tx, decodeMessage(key, value));
  if (due.length === messagesPerStep)
    tx.schedule({ atMs: tx.nowMs, kind: expiryTimers.room, reference: room });
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
