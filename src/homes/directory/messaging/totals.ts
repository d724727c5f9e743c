/** The totals of `/stats`, changed in the same commit as the rows that they count. */
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Room, Totals } from '../../../messaging/model.js';
import { byRank, topRoomsMax } from '../../../messaging/rooms/totals.js';
import { uuidBytes } from '../../../messaging/identities/uuid.js';
import { type RoomRow, decode, encode, families } from './rows.js';

export type CountsRow = Omit<Totals, 'top'> & { newestRoom?: string | undefined };

/**
 * The busiest rooms, without their counts. The counts are read on request, so that a post in one of these
 * rooms writes nothing here. Counts only grow and rooms are never deleted, so each of these rooms has at
 * least `floor` messages, and a room with fewer is not in the list.
 */
export interface TopRow {
  ids: string[];
  floor: number;
}

export const countsKey = Buffer.from('all');
export const topKey = Buffer.from('top');

export function readTotals(reader: Reader): Totals {
  const { newestRoom: _inside, ...counts } = readCounts(reader);
  return {
    ...counts,
    top: topRooms(reader, readTop(reader).ids).map(({ id, name, messageCount }) => ({
      id,
      name,
      messageCount,
    })),
  };
}

export function readCounts(reader: Reader): CountsRow {
  const value = reader.get(families.totals, countsKey);
  return value === undefined
    ? { agents: 0, publicRooms: 0, messages: 0, lastActivityAtMs: null }
    : decode<CountsRow>(value);
}

/** The public room that was created or posted to last. */
export function newestRoom(reader: Reader): string | undefined {
  return readCounts(reader).newestRoom;
}

export function countAgent(tx: Transaction): void {
  change(tx, ({ agents }) => ({ agents: agents + 1 }));
}

export function countRoom(tx: Transaction, room: Room): void {
  change(tx, ({ publicRooms, lastActivityAtMs, newestRoom: before }) => ({
    publicRooms: publicRooms + (room.isPrivate ? 0 : 1),
    lastActivityAtMs: Math.max(room.lastActiveAtMs, lastActivityAtMs ?? 0),
    newestRoom: room.isPrivate ? before : room.id,
  }));
  rankRoom(tx, room);
}

export function countMessage(tx: Transaction, room: Room): void {
  change(tx, ({ messages }) => ({
    messages: messages + 1,
    lastActivityAtMs: room.lastActiveAtMs,
    ...(!room.isPrivate && { newestRoom: room.id }),
  }));
  rankRoom(tx, room);
}

/** An imported message: its room brings its own counts. */
export function countImportedMessage(tx: Transaction): void {
  change(tx, ({ messages }) => ({ messages: messages + 1 }));
}

function change(tx: Transaction, next: (counts: CountsRow) => Partial<CountsRow>): void {
  const counts = readCounts(tx);
  tx.put(families.totals, countsKey, encode({ ...counts, ...next(counts) }));
}

/** Called after the room is written. Adds the room to the busiest rooms if it belongs there. */
export function rankRoom(tx: Transaction, room: Room): void {
  if (room.isPrivate) return;
  const { ids, floor } = readTop(tx);
  if (ids.includes(room.id) || (ids.length === topRoomsMax && room.messageCount < floor)) return;
  putTop(tx, [...ids, room.id]);
}

function putTop(tx: Transaction, ids: readonly string[]): void {
  const top = topRooms(tx, ids).slice(0, topRoomsMax);
  const next: TopRow = { ids: top.map(({ id }) => id), floor: top.at(-1)?.messageCount ?? 0 };
  tx.put(families.totals, topKey, encode(next));
}

function readTop(reader: Reader): TopRow {
  const value = reader.get(families.totals, topKey);
  return value === undefined ? { ids: [], floor: 0 } : decode<TopRow>(value);
}

function topRooms(reader: Reader, ids: readonly string[]): Room[] {
  const rows = reader.getMany(families.rooms, ids.map(uuidBytes));
  return rows.flatMap((value) => (value === undefined ? [] : [decode<RoomRow>(value)])).toSorted(byRank);
}
