/** Direct messages in the directory: an inbox ordered by time, and the messages that are not acknowledged. */
import { directImported } from '../../../../messaging/changes.js';
import { directReceived } from '../../../../messaging/changes.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { type DirectMessage, isExpired } from '../../../../messaging/model.js';
import type { NewDirectMessage, Page, Span } from '../../../../messaging/port.js';
import { refuse } from '../../../../messaging/refusals.js';
import { nextTsMs } from '../../../../messaging/rooms/clock.js';
import { newUlid, ulidBytes } from '../../../../messaging/messages/ulid.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { directRecords } from '../indexes.js';
import { placesOf } from './places.js';
import { scheduleExpiry } from '../retention-timers.js';
import { oldestLivingMs, readSpan } from './messages.js';
import { decodeDirect, families, nothing, timeOfKey, timedKey } from '../rows.js';

export function sendDirect(tx: Transaction, limits: Limits, input: NewDirectMessage): DirectMessage {
  const agent = uuidBytes(input.to);
  if (tx.get(families.agents, agent) === undefined) throw refuse('recipientUnknown');
  const clock = tx.get(families.inboxClocks, agent);
  const tsMs = nextTsMs(clock === undefined ? 0 : timeOfKey(clock), tx.nowMs);
  const message: DirectMessage = { ...input, id: newUlid(tsMs), tsMs, acknowledged: false };
  tx.put(families.inboxClocks, agent, timedKey(nothing, tsMs));
  storeDirect(tx, limits, undefined, message);
  tx.change(directReceived(message.id, input.to));
  return message;
}

/** Writes a direct message over the one at this time of its inbox, and the timer that expires it. */
export function storeDirect(
  tx: Transaction,
  limits: Limits,
  before: DirectMessage | undefined,
  message: DirectMessage,
): void {
  directRecords.put(tx, before, message);
  const expiresAtMs = message.tsMs + limits.directRetentionSeconds * 1000;
  scheduleExpiry(tx, 'inbox', uuidBytes(message.to), expiresAtMs);
}

/** Gives a direct message another time. Its id and its order among the others stay. */
export function moveDirect(tx: Transaction, limits: Limits, message: DirectMessage, tsMs: number): void {
  directRecords.remove(tx, message);
  storeDirect(tx, limits, undefined, { ...message, tsMs });
  tx.change(directImported(message));
}

function findDirect(reader: Reader, agent: Buffer, messageId: string): DirectMessage | undefined {
  const id = ulidBytes(messageId);
  if (id === undefined) return undefined;
  for (const tsMs of placesOf(reader, agent, id)) {
    const key = timedKey(agent, tsMs);
    const value = reader.get(families.inboxes, key);
    const message = value === undefined ? undefined : decodeDirect(key, value);
    if (message?.id === messageId) return message;
  }
  return undefined;
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
    const message = findDirect(tx, agent, id);
    if (message === undefined || message.acknowledged) continue;
    if (isExpired(message.tsMs, limits.directRetentionSeconds, tx.nowMs)) continue;
    directRecords.put(tx, message, { ...message, acknowledged: true });
    acknowledged += 1;
  }
  return acknowledged;
}
