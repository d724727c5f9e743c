/** Rooms in the directory, with their names, owners and keys. */
import { randomUUID } from 'node:crypto';
import { Outdated } from '../../../../core/write.js';
import { roomChanged } from '../../../../messaging/changes.js';
import { type RangeOptions, keyAfterPrefix, prefixRange } from '../../kernel/engine.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { walk } from '../../kernel/walk.js';
import type { Limits } from '../../../../core/settings/limits.js';
import type { Room } from '../../../../messaging/model.js';
import type { NewRoom, OpeningMessage, RoomName, RoomUpdate } from '../../../../messaging/port.js';
import { refuse, requireRoomVersion, roomNameTaken, tooManyRooms } from '../../../../messaging/refusals.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { Slices } from '../../../../core/waiting/yielding.js';
import { roomRecords } from '../indexes.js';
import { sweepSoon } from '../retention-timers.js';
import {
  type RoomRow,
  decode,
  families,
  namePrefix,
  namesPrefix,
  roomOfActivityKey,
  roomOfNameKey,
} from '../rows.js';
import { countRoom, forgetRoom } from '../totals.js';

export function readRoom(reader: Reader, id: Buffer): RoomRow | undefined {
  const value = reader.get(families.rooms, id);
  return value === undefined ? undefined : decode<RoomRow>(value);
}

/** The hash of the room's key; null for a room without one. */
export function readKeyHash(reader: Reader, id: string): string | null {
  return reader.get(families.roomKeys, uuidBytes(id))?.toString() ?? null;
}

export function createRoom(
  tx: Transaction,
  limits: Limits,
  input: Omit<NewRoom, 'createdBy'> & { createdBy: string | null },
  id: string = randomUUID(),
): RoomRow {
  const { name, isPrivate, owner, retentionSeconds, createdBy, keyHash } = input;
  if (owner !== null) requireFreeName(tx, limits, owner, name);
  const room: RoomRow = {
    id,
    name,
    isPrivate,
    owner,
    retentionSeconds,
    createdBy,
    createdAtMs: tx.nowMs,
    lastActiveAtMs: tx.nowMs,
    messageCount: 0,
    version: 1,
    lastTsMs: 0,
  };
  roomRecords.put(tx, undefined, room);
  if (keyHash !== null) tx.put(families.roomKeys, uuidBytes(id), Buffer.from(keyHash));
  countRoom(tx, room);
  tx.change(roomChanged(room, 'created'));
  return room;
}

function requireFreeName(tx: Transaction, limits: Limits, owner: string, name: string): void {
  if (ownRoom(tx, owner, name) !== undefined) throw roomNameTaken(name);
  const bounds = { ...prefixRange(namesPrefix(owner)), limit: limits.ownRoomsMax };
  const owned = [...tx.range(families.roomNames, bounds)].length;
  if (owned >= limits.ownRoomsMax) throw tooManyRooms(limits);
}

export function updateRoom(
  tx: Transaction,
  id: string,
  { name, retentionSeconds }: RoomUpdate,
  ifVersion?: number,
): Room {
  const roomKey = uuidBytes(id);
  const room = readRoom(tx, roomKey);
  if (room === undefined) throw refuse('roomUnknown');
  requireRoomVersion(room, ifVersion);
  if (name !== undefined && name !== room.name && room.owner !== null) {
    if (ownRoom(tx, room.owner, name) !== undefined) throw roomNameTaken(name);
  }
  const next: RoomRow = {
    ...room,
    ...(name !== undefined && { name }),
    ...(retentionSeconds !== undefined && { retentionSeconds }),
    version: room.version + 1,
  };
  roomRecords.put(tx, room, next);
  // Messages that have expired by the new time are removed now; the sweep also sets the next timer.
  if (next.retentionSeconds !== room.retentionSeconds) sweepSoon(tx, roomKey);
  tx.change(roomChanged(next, 'updated'));
  return next;
}

/** The messages are removed in steps afterwards: without the room they cannot be found. */
export function deleteRoom(tx: Transaction, id: string, ifVersion?: number): boolean {
  const roomKey = uuidBytes(id);
  const room = readRoom(tx, roomKey);
  if (room === undefined) return false;
  requireRoomVersion(room, ifVersion);
  roomRecords.remove(tx, room);
  tx.delete(families.roomKeys, roomKey);
  forgetRoom(tx, room);
  sweepSoon(tx, roomKey);
  tx.change(roomChanged(room, 'deleted'));
  return true;
}

export function ownRoom(reader: Reader, owner: string, name: string): RoomRow | undefined {
  return roomsAt(reader, { ...prefixRange(namePrefix(owner, name)), limit: 1 })[0];
}

export function publicRoomsNamed(reader: Reader, name: string, limit: number): RoomRow[] {
  return roomsAt(reader, { ...prefixRange(namePrefix(null, name)), limit });
}

/** Rooms of one user, or of all users. */
export async function ownRooms(
  reader: Reader,
  owner: string | null,
  after: RoomName | null,
  limit: number,
): Promise<RoomRow[]> {
  const { lt } = owner === null ? {} : prefixRange(namesPrefix(owner));
  // Names of public rooms come first.
  const start =
    after !== null
      ? keyAfterPrefix(namePrefix(after.owner, after.name))
      : owner === null
        ? keyAfterPrefix(namesPrefix(null))
        : namesPrefix(owner);
  const bounds = { ...(start !== undefined && { gte: start }), ...(lt !== undefined && { lt }) };
  const found: RoomRow[] = [];
  await walk(reader, families.roomNames, bounds, ({ key }) => {
    if (found.length === limit) return false;
    found.push(...rowsOf(reader, [Buffer.from(roomOfNameKey(key))]));
    return true;
  });
  return found;
}

function roomsAt(reader: Reader, bounds: RangeOptions): RoomRow[] {
  const keys = Array.from(reader.range(families.roomNames, bounds), ({ key }) =>
    Buffer.from(roomOfNameKey(key)),
  );
  return rowsOf(reader, keys);
}

function rowsOf(reader: Reader, keys: readonly Buffer[]): RoomRow[] {
  return reader
    .getMany(families.rooms, keys)
    .flatMap((value) => (value === undefined ? [] : [decode<RoomRow>(value)]));
}

/**
 * The keys of active public rooms, the most recent first. Rooms before an offset are skipped one by one,
 * because the index has no counts.
 */
export async function publicRoomKeys(reader: Reader, limit: number, offset: number): Promise<Buffer[]> {
  const keys: Buffer[] = [];
  const slices = new Slices();
  let left = offset;
  let bounds: RangeOptions = {};
  while (keys.length < limit) {
    const asked = Math.min(left + limit - keys.length, roomsPerStep);
    const page = [...reader.range(families.roomsByActivity, { ...bounds, reverse: true, limit: asked })];
    for (const { key } of page.slice(left)) keys.push(roomOfActivityKey(key));
    left = Math.max(0, left - page.length);
    const last = page.at(-1);
    if (last === undefined || page.length < asked) break;
    if (keys.length === limit) break;
    bounds = { lt: last.key };
    await slices.pause();
  }
  return keys;
}

const roomsPerStep = 1_000;

/** Writes an imported room over an existing one. A private room keeps its key if the line has none. */
export function restoreRoom(tx: Transaction, room: RoomRow, keyHash: string | null | undefined): void {
  const roomKey = uuidBytes(room.id);
  const before = readRoom(tx, roomKey);
  const lastTsMs = Math.max(room.lastTsMs, before?.lastTsMs ?? 0);
  roomRecords.put(tx, before, { ...room, lastTsMs });
  if (!room.isPrivate) tx.delete(families.roomKeys, roomKey);
  else if (keyHash !== null && keyHash !== undefined)
    tx.put(families.roomKeys, roomKey, Buffer.from(keyHash));
  // Its place among the busiest rooms may be worse than before.
  if (before !== undefined) forgetRoom(tx, before);
  countRoom(tx, room);
}

/**
 * The owner's room with this name, for a message that may be the first: made if it is missing. A private room
 * is accepted if an earlier message of the commit made it: only then the hash is the same.
 */
export function openRoom(
  tx: Transaction,
  limits: Limits,
  wanted: OpeningMessage['room'],
): { roomId: string; created: boolean } {
  const known = ownRoom(tx, wanted.owner, wanted.name);
  // Null is also the hash of a private room whose key was lost.
  const isSame = known !== undefined && wanted.isPrivate && readKeyHash(tx, known.id) === wanted.keyHash;
  if (known?.isPrivate === true && !isSame) throw new Outdated(`The room "${wanted.name}"`);
  return { roomId: (known ?? createRoom(tx, limits, wanted)).id, created: known === undefined };
}
