/**
 * Repairs messages with a time in the future, which come from a clock that was ahead. They would be kept
 * longer than others, and every later message would get a time after them. Each gets the next time after
 * those before it, oldest first, so that their order stays; its id stays too.
 */
import type { Damage, ExaminedRow } from '../../kernel/inspect/damage.js';
import { prefixRange } from '../../kernel/engine.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { isoTime } from '../../../../core/text/iso-time.js';
import type { DirectMessage, Message } from '../../../../messaging/model.js';
import { nextTsMs } from '../../../../messaging/rooms/clock.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { moveDirect } from '../../messaging/messages/inboxes.js';
import { roomRecords } from '../../messaging/indexes.js';
import { moveMessage } from '../../messaging/messages/messages.js';
import { readRoom } from '../../messaging/rooms/rooms.js';
import { type RoomRow, families, nothing, timeOfKey, timedKey } from '../../messaging/rows.js';

/** The latest time that a message may have now. */
export function latestTsMs({ messageClockAheadSecondsMax }: Limits, nowMs: number): number {
  return nowMs + messageClockAheadSecondsMax * 1000;
}

/** The time of the newest message under a room or an agent, not after `untilMs`; 0 if there is none. */
export function newestTsMs(reader: Reader, family: string, id: Buffer, untilMs?: number): number {
  const bounds = untilMs === undefined ? prefixRange(id) : { gte: id, lte: timedKey(id, untilMs) };
  for (const { key } of reader.range(family, { ...bounds, reverse: true, limit: 1 })) return timeOfKey(key);
  return 0;
}

/** Found with the message; the clock of its room goes back with the last of them. */
export function* inspectMessageTime(limits: Limits, row: ExaminedRow, message: Message): Generator<Damage> {
  if (message.tsMs <= latestTsMs(limits, row.store.nowMs())) return;
  const problem = `The message ${message.id} has a time in the future: ${isoTime(message.tsMs)}.`;
  const damage = row.wrong(problem, (tx) => {
    const roomKey = uuidBytes(message.roomId);
    const room = readRoom(tx, roomKey);
    if (room === undefined) return;
    moveMessage(tx, limits, room, message, freeTsMs(tx, limits, families.messages, roomKey));
    const lastTsMs = newestTsMs(tx, families.messages, roomKey);
    roomRecords.rewrite(tx, { ...room, lastTsMs });
  });
  yield { ...damage, repair: moved };
}

export function* inspectDirectTime(
  limits: Limits,
  row: ExaminedRow,
  message: DirectMessage,
): Generator<Damage> {
  if (message.tsMs <= latestTsMs(limits, row.store.nowMs())) return;
  const problem = `The direct message ${message.id} has a time in the future: ${isoTime(message.tsMs)}.`;
  const damage = row.wrong(problem, (tx) => {
    const agent = uuidBytes(message.to);
    moveDirect(tx, limits, message, freeTsMs(tx, limits, families.inboxes, agent));
    const clock = timedKey(nothing, newestTsMs(tx, families.inboxes, agent));
    tx.put(families.inboxClocks, agent, clock);
  });
  yield { ...damage, repair: moved };
}

/** A room whose last activity is in the future would be first in the list of rooms until then. */
export function* inspectActivityTime(limits: Limits, row: ExaminedRow, room: RoomRow): Generator<Damage> {
  const { lastActiveAtMs, listedAtMs = lastActiveAtMs } = room;
  if (Math.max(lastActiveAtMs, listedAtMs) <= latestTsMs(limits, row.store.nowMs())) return;
  const problem = `The last activity of the room ${room.id} is in the future: ${isoTime(lastActiveAtMs)}.`;
  const damage = row.wrong(problem, (tx) => relist(tx, row.key));
  yield { ...damage, repair: 'set it to the current time' };
}

function relist(tx: Transaction, key: Buffer): void {
  const room = readRoom(tx, key);
  if (room === undefined) return;
  roomRecords.put(tx, room, { ...room, lastActiveAtMs: tx.nowMs, listedAtMs: tx.nowMs });
}

/**
 * Messages are repaired oldest first: each gets a time after all messages that are not in the future, or no
 * longer are.
 */
function freeTsMs(tx: Transaction, limits: Limits, family: string, id: Buffer): number {
  return nextTsMs(newestTsMs(tx, family, id, latestTsMs(limits, tx.nowMs)), tx.nowMs);
}

const moved = 'give it the next free time of its room or inbox, which keeps the order';
