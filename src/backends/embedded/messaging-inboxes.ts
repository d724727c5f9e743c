/** Direct messages in the embedded store: an inbox ordered by time, and what is not acknowledged in it. */
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../limits.js';
import { type DirectMessage, isExpired } from '../../messaging/model.js';
import type { NewDirectMessage, Page, Span } from '../../messaging/port.js';
import { refuse } from '../../messaging/refusals.js';
import { nextTsMs } from '../../messaging/room-clock.js';
import { newUlid, ulidTimeMs } from '../../messaging/ulid.js';
import { uuidBytes } from '../../messaging/uuid.js';
import { scheduleExpiry } from './messaging-retention-timers.js';
import { oldestLivingMs, readSpan } from './messaging-rooms.js';
import { decodeDirect, encodeDirect, families, nothing, timeOfKey, timedKey } from './messaging-rows.js';

export function sendDirect(tx: Transaction, limits: Limits, input: NewDirectMessage): DirectMessage {
  const agent = uuidBytes(input.to);
  if (tx.get(families.agents, agent) === undefined) throw refuse('recipientUnknown');
  const clock = tx.get(families.inboxClocks, agent);
  const tsMs = nextTsMs(clock === undefined ? 0 : timeOfKey(clock), tx.nowMs, limits);
  const message: DirectMessage = { ...input, id: newUlid(tsMs), tsMs, acknowledged: false };
  tx.put(families.inboxClocks, agent, timedKey(nothing, tsMs));
  tx.put(families.inboxes, timedKey(agent, tsMs), encodeDirect(message));
  tx.put(families.pending, timedKey(agent, tsMs), nothing);
  scheduleExpiry(tx, 'inbox', agent, tsMs + limits.directRetentionSeconds * 1000);
  tx.change({
    domain: 'messaging',
    kind: 'direct.received',
    id: message.id,
    user: null,
    version: null,
    audience: 'recipient',
    recipient: input.to,
  });
  return message;
}

export function readInbox(
  reader: Reader,
  limits: Limits,
  agentId: string,
  span: Span,
  nowMs: number,
): Page<DirectMessage> {
  const { entries, hasMore } = readSpan(
    reader,
    families.inboxes,
    uuidBytes(agentId),
    span,
    oldestLivingMs(nowMs, limits.directRetentionSeconds),
  );
  return { items: entries.map(({ key, value }) => decodeDirect(key, value)), hasMore };
}

export function readPending(
  reader: Reader,
  limits: Limits,
  agentId: string,
  afterMs: number,
  limit: number,
  nowMs: number,
): Page<DirectMessage> {
  const { entries, hasMore } = readSpan(
    reader,
    families.pending,
    uuidBytes(agentId),
    { afterMs, limit },
    oldestLivingMs(nowMs, limits.directRetentionSeconds),
  );
  const keys = entries.map(({ key }) => key);
  const values = reader.getMany(families.inboxes, keys);
  const items = values.flatMap((value, index) =>
    value === undefined ? [] : [decodeDirect(keys[index] as Buffer, value)],
  );
  return { items, hasMore };
}

export function acknowledge(
  tx: Transaction,
  limits: Limits,
  agentId: string,
  ids: readonly string[],
): number {
  const agent = uuidBytes(agentId);
  let acknowledged = 0;
  for (const id of new Set(ids)) {
    const tsMs = ulidTimeMs(id);
    if (tsMs === undefined || isExpired(tsMs, limits.directRetentionSeconds, tx.nowMs)) continue;
    const key = timedKey(agent, tsMs);
    const value = tx.get(families.inboxes, key);
    const message = value === undefined ? undefined : decodeDirect(key, value);
    if (message?.id !== id || message.acknowledged) continue;
    tx.put(families.inboxes, key, encodeDirect({ ...message, acknowledged: true }));
    tx.delete(families.pending, key);
    acknowledged += 1;
  }
  return acknowledged;
}
