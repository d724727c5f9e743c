/**
 * The index rows of the keys of an identity, of a room, a message and a direct message. The search index is
 * not declared here, because it is written later.
 */
import { type Index, IndexedFamily } from '../indexed-family.js';
import type { DirectMessage, Message } from '../../../messaging/model.js';
import { ulidBytes, ulidTimeMs } from '../../../messaging/messages/ulid.js';
import { uuidBytes } from '../../../messaging/identities/uuid.js';
import { isPublic } from '../../../messaging/rooms/visibility.js';
import { placeKey } from './messages/places.js';
import {
  type RoomRow,
  activityKey,
  encode,
  encodeDirect,
  encodeMessage,
  families,
  namePrefix,
  nothing,
  timeOfId,
  timedKey,
} from './rows.js';

/** A key of an identity's history. Retired keys stay in the index and cannot be registered again. */
export interface IdentityKeyRecord {
  agent: Buffer;
  publicKey: string;
  fromMs: number;
  /** Stored as it was sent. */
  proof: object | null;
}

export const identityKeyRecords = new IndexedFamily<IdentityKeyRecord>({
  family: families.agentKeys,
  keyOf: ({ agent, fromMs }) => timedKey(agent, fromMs),
  encode: ({ agent: _agent, ...row }) => encode(row),
  indexes: [
    {
      family: families.agentsByKey,
      keysOf: ({ publicKey }) => keyBytes(publicKey),
      contentOf: ({ agent }) => agent,
    },
  ],
});

export function keyBytes(publicKey: string): Buffer {
  return Buffer.from(publicKey, 'base64');
}

export const roomRecords = new IndexedFamily<RoomRow>({
  family: families.rooms,
  keyOf: ({ id }) => uuidBytes(id),
  encode,
  indexes: [
    {
      family: families.roomsByActivity,
      keysOf: (room) => (isPublic(room) ? activityKey(room, uuidBytes(room.id)) : undefined),
      basisOf: (room) => (isPublic(room) ? (room.listedAtMs ?? room.lastActiveAtMs) : undefined),
    },
    {
      family: families.roomNames,
      keysOf: (room) =>
        room.owner === null && room.isPrivate
          ? undefined
          : Buffer.concat([namePrefix(room.owner, room.name), uuidBytes(room.id)]),
      // An import can give a room another owner.
      basisOf: ({ owner, isPrivate, name }) =>
        owner === null ? (isPrivate ? undefined : name) : `${owner}\0${name}`,
    },
  ],
});

/** A message with its id in bytes, which a post has already computed. */
export interface PlacedMessage {
  message: Message;
  id: Buffer;
}

export const messageRecords = new IndexedFamily<PlacedMessage>({
  family: families.messages,
  keyOf: ({ message }) => timedKey(uuidBytes(message.roomId), message.tsMs),
  encode: ({ message }) => encodeMessage(message),
  indexes: [
    {
      family: families.threads,
      keysOf: ({ message: { roomId, rootId, tsMs } }) =>
        rootId === null ? undefined : threadKey(uuidBytes(roomId), rootId, tsMs),
    },
    placeIndex(({ message: { roomId, tsMs }, id }) => ({ owner: roomId, id, tsMs })),
  ],
});

function threadKey(roomKey: Buffer, rootId: string, tsMs: number): Buffer {
  return timedKey(timedKey(roomKey, ulidTimeMs(rootId) ?? 0), tsMs);
}

export const directRecords = new IndexedFamily<DirectMessage>({
  family: families.inboxes,
  keyOf: directKey,
  encode: encodeDirect,
  indexes: [
    {
      family: families.pending,
      keysOf: (message) => (message.acknowledged ? undefined : directKey(message)),
    },
    placeIndex(({ to, id, tsMs }) => ({ owner: to, id: ulidBytes(id), tsMs })),
  ],
});

function directKey({ to, tsMs }: DirectMessage): Buffer {
  return timedKey(uuidBytes(to), tsMs);
}

/** This index finds a message by its id if the id contains another time than the message. */
function placeIndex<Placed>(
  placeOf: (placed: Placed) => { owner: string; id: Buffer | undefined; tsMs: number },
): Index<Placed> {
  return {
    family: families.places,
    keysOf: (placed) => {
      const { owner, id, tsMs } = placeOf(placed);
      return id === undefined || timeOfId(id) === tsMs ? undefined : placeKey(uuidBytes(owner), id);
    },
    contentOf: (placed) => timedKey(nothing, placeOf(placed).tsMs),
  };
}
