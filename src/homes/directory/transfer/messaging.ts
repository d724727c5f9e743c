/**
 * Identities, rooms, messages and direct messages in exports and imports. All of them are stored in shard 00.
 */
import type { Limits } from '../../../core/settings/limits.js';
import { prefixRange } from '../kernel/engine.js';
import type { Kernel } from '../kernel/kernel.js';
import type { Reader, Transaction } from '../kernel/transaction.js';
import type { DirectMessage, Message } from '../../../messaging/model.js';
import { globalRoomId, uuidBytes, uuidOfBytes } from '../../../messaging/identities/uuid.js';
import type {
  DirectLine,
  IdentityLine,
  MessageLine,
  RoomLine,
} from '../../../transfer/records/record-schemas.js';
import { identityKeyTaken, orphan, roomNameTaken } from '../../../transfer/import/conflicts.js';
import type { RecordStore } from '../../../transfer/port.js';
import { readIdentity } from '../messaging/identities/identities.js';
import { storeDirect } from '../messaging/messages/inboxes.js';
import { identityKeyRecords, keyBytes } from '../messaging/indexes.js';
import { removeMessage, restoreMessage } from '../messaging/messages/messages.js';
import { ownRoom, readRoom, restoreRoom } from '../messaging/rooms/rooms.js';
import { directImported, identityChanged, messageImported, roomChanged } from '../../../messaging/changes.js';
import {
  type IdentityKeyRow,
  decode,
  decodeDirect,
  decodeMessage,
  encode,
  families,
  nothing,
  timeOfKey,
  timedKey,
} from '../messaging/rows.js';
import { countAgent, countImportedMessage } from '../messaging/totals.js';
import { type FamilyKind, FamilyRecords } from './records.js';

const everybody = (): null => null;

const identityKind: FamilyKind<IdentityLine> = {
  family: families.agents,
  read: (reader, { key }) => identityLine(reader, uuidOfBytes(key)),
  userOf: everybody,
  stored: (reader, { id }) => identityLine(reader, id),
  obstacle: (reader, { id, keys }) => {
    const holder = keys
      .map(({ publicKey }) => reader.get(families.agentsByKey, keyBytes(publicKey)))
      .find((found) => found !== undefined && !found.equals(uuidBytes(id)));
    return holder === undefined ? null : identityKeyTaken(id, uuidOfBytes(holder));
  },
  put: putIdentity,
};

const roomKind: FamilyKind<RoomLine> = {
  family: families.rooms,
  read: (reader, { key }, { withSecrets }) => roomLine(reader, key, withSecrets),
  userOf: everybody,
  // Every store has the global room; an import adds to it.
  stored: (reader, { id }) => (id === globalRoomId ? undefined : roomLine(reader, uuidBytes(id), false)),
  essence: ({ key_hash: _key_hash, ...rest }) => rest,
  obstacle: (reader, { id, owner, name }) => {
    const holder = owner === null ? undefined : ownRoom(reader, owner, name);
    return holder === undefined || holder.id === id ? null : roomNameTaken(owner, name);
  },
  put: (tx, line) => putRoom(tx, line),
};

export function messagingRecords(kernel: Kernel): [type: string, store: RecordStore][] {
  return [
    ['messaging.identity', new FamilyRecords(kernel, identityKind)],
    ['messaging.room', new FamilyRecords(kernel, roomKind)],
    ['messaging.message', new FamilyRecords(kernel, messageKind(kernel.limits))],
    ['messaging.direct', new FamilyRecords(kernel, directKind(kernel.limits))],
  ];
}

function messageKind(limits: Limits): FamilyKind<MessageLine> {
  return {
    family: families.messages,
    read: (_reader, { key, value }) => messageLine(decodeMessage(key, value)),
    userOf: everybody,
    stored: (reader, { roomId, tsMs }) => {
      const message = storedMessage(reader, roomId, tsMs);
      return message && messageLine(message);
    },
    obstacle: (reader, { roomId }, coming) =>
      coming?.references === true || readRoom(reader, uuidBytes(roomId)) !== undefined
        ? null
        : orphan(`The room ${roomId}`),
    put: (tx, { type: _type, ...message }) => {
      const room = readRoom(tx, uuidBytes(message.roomId));
      if (room === undefined) return;
      const before = storedMessage(tx, message.roomId, message.tsMs);
      if (before === undefined) countImportedMessage(tx, room);
      else removeMessage(tx, before);
      restoreMessage(tx, limits, room, message);
      tx.change(messageImported(room, message.id));
    },
  };
}

function directKind(limits: Limits): FamilyKind<DirectLine> {
  return {
    family: families.inboxes,
    read: (_reader, { key, value }) => directLine(decodeDirect(key, value)),
    userOf: everybody,
    stored: (reader, { to, tsMs }) => {
      const message = storedDirect(reader, to, tsMs);
      return message && directLine(message);
    },
    obstacle: (reader, { to }, coming) =>
      coming?.references === true || readIdentity(reader, uuidBytes(to)) !== undefined
        ? null
        : orphan(`The identity ${to}`),
    put: (tx, line) => {
      const { type: _type, ...message } = line;
      const inbox = uuidBytes(message.to);
      storeDirect(tx, limits, storedDirect(tx, message.to, message.tsMs), message);
      const clock = tx.get(families.inboxClocks, inbox);
      if (clock === undefined || timeOfKey(clock) < message.tsMs)
        tx.put(families.inboxClocks, inbox, timedKey(nothing, message.tsMs));
      tx.change(directImported(line));
    },
  };
}

function putIdentity(tx: Transaction, { type: _type, keys, ...identity }: IdentityLine): void {
  const id = uuidBytes(identity.id);
  if (tx.get(families.agents, id) === undefined) countAgent(tx);
  for (const row of keyRows(tx, id)) identityKeyRecords.remove(tx, { agent: id, ...row });
  tx.put(families.agents, id, encode(identity));
  for (const row of keys) identityKeyRecords.put(tx, undefined, { agent: id, ...row });
  tx.change(identityChanged(identity.id, 'imported'));
}

function putRoom(tx: Transaction, { type: _type, key_hash, ...room }: RoomLine): void {
  const before = room.id === globalRoomId ? readRoom(tx, uuidBytes(room.id)) : undefined;
  // Counts of the global room never fall, and a second import of the same file does not change them. One
  // without messages is as it was made.
  const merged =
    before === undefined || before.messageCount === 0
      ? room
      : {
          ...room,
          createdAtMs: Math.min(room.createdAtMs, before.createdAtMs),
          messageCount: Math.max(room.messageCount, before.messageCount),
          lastActiveAtMs: Math.max(room.lastActiveAtMs, before.lastActiveAtMs),
        };
  restoreRoom(tx, merged, key_hash);
  tx.change(roomChanged(room, 'imported'));
}

function identityLine(reader: Reader, id: string): IdentityLine | undefined {
  const identity = readIdentity(reader, uuidBytes(id));
  if (identity === undefined) return undefined;
  return { type: 'messaging.identity', ...identity, keys: keyRows(reader, uuidBytes(id)) };
}

function keyRows(reader: Reader, id: Buffer): IdentityKeyRow[] {
  return Array.from(reader.range(families.agentKeys, prefixRange(id)), ({ value }) =>
    decode<IdentityKeyRow>(value),
  );
}

function roomLine(reader: Reader, key: Buffer, withSecrets: boolean): RoomLine | undefined {
  const room = readRoom(reader, key);
  if (room === undefined) return undefined;
  // The position in this store's list is meaningless in another store.
  const { listedAtMs: _inside, ...told } = room;
  return {
    type: 'messaging.room',
    ...told,
    ...(withSecrets && { key_hash: reader.get(families.roomKeys, key)?.toString() ?? null }),
  };
}

function storedMessage(reader: Reader, roomId: string, tsMs: number): Message | undefined {
  const key = timedKey(uuidBytes(roomId), tsMs);
  const value = reader.get(families.messages, key);
  return value === undefined ? undefined : decodeMessage(key, value);
}

function storedDirect(reader: Reader, to: string, tsMs: number): DirectMessage | undefined {
  const key = timedKey(uuidBytes(to), tsMs);
  const value = reader.get(families.inboxes, key);
  return value === undefined ? undefined : decodeDirect(key, value);
}

function messageLine(message: Message): MessageLine {
  return { type: 'messaging.message', ...message };
}

function directLine(message: DirectMessage): DirectLine {
  return { type: 'messaging.direct', ...message };
}
