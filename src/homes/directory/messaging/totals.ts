/** The totals of `/stats`, without the rooms of users, changed in the same commit as the rows that they count. */
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { Room, Totals } from '../../../messaging/model.js';
import { byRank, topRoomsMax } from '../../../messaging/rooms/totals.js';
import { isPublic } from '../../../messaging/rooms/visibility.js';
import { uuidBytes, uuidOfBytes } from '../../../messaging/identities/uuid.js';
import { type RoomRow, decode, encode, families, roomOfActivityKey } from './rows.js';

export type CountsRow = Omit<Totals, 'top'> & { newestRoom?: string | undefined };

/**
 * The busiest rooms, without their counts. The counts are read on request, so that a post in one of these
 * rooms writes nothing here. Counts only grow, so each of these rooms has at least `floor` messages, and a
 * room with fewer is not in the list. After a room of the list was deleted, the others of the list and the
 * most recently active rooms are compared again.
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
  if (room.owner !== null) return;
  change(tx, ({ publicRooms, lastActivityAtMs, newestRoom: before }) => ({
    publicRooms: publicRooms + (room.isPrivate ? 0 : 1),
    lastActivityAtMs: Math.max(room.lastActiveAtMs, lastActivityAtMs ?? 0),
    newestRoom: room.isPrivate ? before : room.id,
  }));
  rankRoom(tx, room);
}

/** Called after the room is removed or replaced. The number of messages ever posted stays. */
export function forgetRoom(tx: Transaction, room: Room): void {
  if (!isPublic(room)) return;
  change(tx, ({ publicRooms, newestRoom: newest }) => ({
    publicRooms: publicRooms - 1,
    ...(newest === room.id && { newestRoom: undefined }),
  }));
  const { ids } = readTop(tx);
  if (!ids.includes(room.id)) return;
  const active = tx.range(families.roomsByActivity, { reverse: true, limit: activeRoomsCompared });
  const others = Array.from(active, ({ key }) => uuidOfBytes(roomOfActivityKey(key)));
  putTop(tx, [...new Set([...ids.filter((id) => id !== room.id), ...others])]);
}

/**
 * Comparing more would take too long in one transaction. A room that is missing then is added again with its
 * next message.
 */
const activeRoomsCompared = 500;

export function countMessage(tx: Transaction, room: Room): void {
  if (room.owner !== null) return;
  change(tx, ({ messages }) => ({
    messages: messages + 1,
    lastActivityAtMs: room.lastActiveAtMs,
    ...(!room.isPrivate && { newestRoom: room.id }),
  }));
  rankRoom(tx, room);
}

/** An imported message: its room brings its own counts. */
export function countImportedMessage(tx: Transaction, room: Room): void {
  if (room.owner === null) change(tx, ({ messages }) => ({ messages: messages + 1 }));
}

function change(tx: Transaction, next: (counts: CountsRow) => Partial<CountsRow>): void {
  const counts = readCounts(tx);
  tx.put(families.totals, countsKey, encode({ ...counts, ...next(counts) }));
}

/** Called after the room is written. Adds the room to the busiest rooms if it belongs there. */
function rankRoom(tx: Transaction, room: Room): void {
  if (!isPublic(room)) return;
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
