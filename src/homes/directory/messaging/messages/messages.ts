/** Messages of rooms in the directory: a post is one commit with its index and its counters. */
import { messageDeleted, messageImported, messagePosted } from '../../../../messaging/changes.js';
import type { Entry } from '../../kernel/engine.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { StoaError } from '../../../../core/errors.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { type Message, type Room, isExpired } from '../../../../messaging/model.js';
import type { NewMessage, Page, Span } from '../../../../messaging/port.js';
import { refuse } from '../../../../messaging/refusals.js';
import { type ByteWindow, nextTsMs, spendBytes } from '../../../../messaging/rooms/clock.js';
import { type RoomKeep, isPublic, retentionOf } from '../../../../messaging/rooms/visibility.js';
import { newUlidBytes, ulidBytes, ulidTimeMs } from '../../../../messaging/messages/ulid.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { messageEntry } from '../../../../find/entries.js';
import { markEntry } from '../../find/filing/marks.js';
import { messagesPartition } from '../../find/rows.js';
import type { EntrySource } from '../../find/sources.js';
import { scheduleExpiry } from '../retention-timers.js';
import { messageRecords, roomRecords } from '../indexes.js';
import { readRoom } from '../rooms/rooms.js';
import {
  type RoomRow,
  decode,
  decodeMessage,
  encode,
  endOfTimeMs,
  families,
  timeOfKey,
  timedKey,
} from '../rows.js';
import { placesOf } from './places.js';
import { countMessage, newestRoom } from '../totals.js';

export function postMessage(tx: Transaction, limits: Limits, input: NewMessage): Message {
  const room = readRoom(tx, uuidBytes(input.roomId));
  if (room === undefined) throw refuse('roomUnknown');
  const parent =
    input.parentId === null ? undefined : findMessage(tx, limits, room, input.parentId, tx.nowMs);
  if (input.parentId !== null && parent === undefined) throw refuse('parentUnknown');
  spend(tx, limits, input.from, Buffer.byteLength(input.body));

  const tsMs = nextTsMs(room.lastTsMs, tx.nowMs);
  const rootId = parent === undefined ? null : (parent.rootId ?? parent.id);
  const { id, bytes: idBytes } = newUlidBytes(tsMs);
  const message: Message = { ...input, id, rootId, tsMs };
  storeMessage(tx, limits, room, message, idBytes);
  moveRoom(tx, room, tsMs);
  tx.change(messagePosted(room, message));
  return message;
}

/** Writes a message, its index rows, and the timer that expires it. */
function storeMessage(tx: Transaction, limits: Limits, room: Room, message: Message, id: Buffer): void {
  const { roomId, tsMs } = message;
  const roomKey = uuidBytes(roomId);
  messageRecords.put(tx, undefined, { message, id });
  if (!room.isPrivate) markMessage(tx, message);
  scheduleExpiry(tx, 'room', roomKey, tsMs + retentionOf(room, limits) * 1000);
}

/** Writes a message of an import. The room of the import brings its own counters. */
export function restoreMessage(tx: Transaction, limits: Limits, room: RoomRow, message: Message): void {
  storeMessage(tx, limits, room, message, idBytesOf(message));
  // The room's clock only goes forward.
  if (room.lastTsMs < message.tsMs) roomRecords.rewrite(tx, { ...room, lastTsMs: message.tsMs });
}

/** Gives a message another time. Its id and its order among the others stay. */
export function moveMessage(
  tx: Transaction,
  limits: Limits,
  room: RoomRow,
  message: Message,
  tsMs: number,
): void {
  removeMessage(tx, message);
  storeMessage(tx, limits, room, { ...message, tsMs }, idBytesOf(message));
  tx.change(messageImported(room, message.id));
}

/**
 * A post in the first room of the list does not change the order, so the room's time in the list is updated
 * only sometimes.
 */
const listedMs = 1_000;

/** Writes the room's counters and its position among the active rooms. */
function moveRoom(tx: Transaction, room: RoomRow, tsMs: number): void {
  const { nowMs } = tx;
  const listedAtMs = room.listedAtMs ?? room.lastActiveAtMs;
  // A time ahead of the clock is from before the clock was set back.
  const isListedNow = listedAtMs <= nowMs && nowMs - listedAtMs < listedMs;
  const staysFirst = !isPublic(room) || (newestRoom(tx) === room.id && isListedNow);
  const next: RoomRow = {
    ...room,
    messageCount: room.messageCount + 1,
    lastActiveAtMs: nowMs,
    lastTsMs: tsMs,
    listedAtMs: staysFirst ? listedAtMs : nowMs,
  };
  roomRecords.put(tx, room, next);
  countMessage(tx, next);
}

function spend(tx: Transaction, limits: Limits, agentId: string, bytes: number): void {
  const key = uuidBytes(agentId);
  const value = tx.get(families.bytes, key);
  const window = spendBytes(
    value === undefined ? undefined : decode<ByteWindow>(value),
    bytes,
    tx.nowMs,
    limits,
  );
  tx.put(families.bytes, key, encode(window));
}

function idBytesOf({ id }: Message): Buffer {
  const bytes = ulidBytes(id);
  if (bytes === undefined)
    throw new StoaError('internal', `The id "${id}" of a stored message is not a ULID.`);
  return bytes;
}

export function findMessage(
  reader: Reader,
  limits: Limits,
  room: RoomKeep,
  messageId: string,
  nowMs: number,
): Message | undefined {
  const id = ulidBytes(messageId);
  if (id === undefined) return undefined;
  const roomKey = uuidBytes(room.id);
  const retentionSeconds = retentionOf(room, limits);
  for (const tsMs of placesOf(reader, roomKey, id)) {
    if (isExpired(tsMs, retentionSeconds, nowMs)) continue;
    const key = timedKey(roomKey, tsMs);
    const value = reader.get(families.messages, key);
    const message = value === undefined ? undefined : decodeMessage(key, value);
    if (message?.id === messageId) return message;
  }
  return undefined;
}

/** Removes a message and its index rows. The total of the room stays. */
export function removeMessage(tx: Transaction, message: Message): void {
  const id = idBytesOf(message);
  messageRecords.remove(tx, { message, id });
  markMessage(tx, message);
}

export function deleteMessage(tx: Transaction, limits: Limits, roomId: string, messageId: string): boolean {
  const room = readRoom(tx, uuidBytes(roomId));
  const message = room === undefined ? undefined : findMessage(tx, limits, room, messageId, tx.nowMs);
  if (message === undefined || room === undefined) return false;
  removeMessage(tx, message);
  tx.change(messageDeleted(room, messageId));
  return true;
}

/** A page of the rows under `id`, in a family that is ordered by time. */
export function readSpan(
  reader: Reader,
  family: string,
  id: Buffer,
  span: Span,
  oldestMs: number,
): { entries: Entry[]; hasMore: boolean } {
  const forward = 'afterMs' in span;
  const from = forward ? Math.max(span.afterMs + 1, oldestMs) : oldestMs;
  const until = forward ? endOfTimeMs : (span.beforeMs ?? endOfTimeMs);
  if (from >= until) return { entries: [], hasMore: false };
  const bounds = {
    gte: timedKey(id, from),
    lt: timedKey(id, until),
    reverse: !forward,
    limit: span.limit + 1,
  };
  const entries = [...reader.range(family, bounds)];
  return { entries: entries.slice(0, span.limit), hasMore: entries.length > span.limit };
}

/** The first time that is not expired. */
export function oldestLivingMs(nowMs: number, retentionSeconds: number): number {
  return nowMs - retentionSeconds * 1000 + 1;
}

export function readMessages(
  reader: Reader,
  limits: Limits,
  room: RoomKeep,
  span: Span,
  nowMs: number,
): Page<Message> {
  const { entries, hasMore } = readSpan(
    reader,
    families.messages,
    uuidBytes(room.id),
    span,
    oldestLivingMs(nowMs, retentionOf(room, limits)),
  );
  return { items: entries.map(({ key, value }) => decodeMessage(key, value)), hasMore };
}

export function readThread(
  reader: Reader,
  limits: Limits,
  room: RoomKeep,
  rootId: string,
  afterMs: number,
  limit: number,
  nowMs: number,
): Page<Message> {
  const roomKey = uuidBytes(room.id);
  const rootTsMs = ulidTimeMs(rootId) ?? 0;
  const items: Message[] = [];
  const root = findMessage(reader, limits, room, rootId, nowMs);
  if (root !== undefined && afterMs < root.tsMs) items.push(root);
  const span: Span = { afterMs, limit: limit - items.length };
  const { entries, hasMore } = readSpan(
    reader,
    families.threads,
    timedKey(roomKey, rootTsMs),
    span,
    oldestLivingMs(nowMs, retentionOf(room, limits)),
  );
  const keys = entries.map(({ key }) => timedKey(roomKey, timeOfKey(key)));
  for (const [index, value] of reader.getMany(families.messages, keys).entries()) {
    const message = value === undefined ? undefined : decodeMessage(keys[index] as Buffer, value);
    // Two first messages whose ids contain the same time share these rows.
    if (message?.rootId === rootId) items.push(message);
  }
  return { items, hasMore };
}

/** For the search index. */
function markMessage(tx: Transaction, { roomId, id }: Message): void {
  markEntry(tx, messagesPartition, { kind: 'messages', collection: roomId, id });
}

/** The entries of messages in the search index. Messages of rooms with a key have none. */
export function messageSource(limits: Limits): EntrySource {
  return (reader, _partition, { collection, id }, nowMs) => {
    const room = readRoom(reader, uuidBytes(collection));
    if (room === undefined || room.isPrivate) return undefined;
    const message = findMessage(reader, limits, room, id, nowMs);
    if (message === undefined) return undefined;
    return messageEntry(message, message.tsMs + retentionOf(room, limits) * 1000);
  };
}

/** Whether a search for this user covers the room: public rooms, and the user's own without a key. */
export function isSearchedRoom(room: Room | undefined, user: string | null): boolean {
  return room !== undefined && !room.isPrivate && (room.owner === null || room.owner === user);
}
