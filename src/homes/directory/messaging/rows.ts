/** The families of messaging in the directory home, and the bytes of their keys and values. */
import type { DirectMessage, Identity, IdentityKey, Message, Proof, Room } from '../../../messaging/model.js';
import { latestTimeMs } from '../../../messaging/messages/ulid.js';
import { userKey } from '../../../identity/user-key.js';
import { uuidOfBytes } from '../../../messaging/identities/uuid.js';

export const families = {
  /** Agent id → identity. The seed's `agents`, renamed because the registry has a family of that name. */
  agents: 'messaging/identities',
  /** Public key, past or present → agent id. */
  agentsByKey: 'messaging/identities_by_key',
  /** Agent id, time → a key, and the time from which it was the current key. */
  agentKeys: 'messaging/identity_keys',
  /** Hash of the owner → agent id and sealed seed of a server-kept identity. */
  keptAgents: 'messaging/kept_identities',
  /** Room id → room. */
  rooms: 'messaging/rooms',
  /** Room id → bcrypt hash. A separate family, so that no list of rooms can show it. */
  roomKeys: 'messaging/room_keys',
  /** Time of activity, room id → nothing; public rooms only, and in the order of their last activity. */
  roomsByActivity: 'messaging/rooms_by_activity',
  /**
   * User or zeros, name, zero, room id → nothing: rooms of users, and public rooms, whose names are not
   * unique.
   */
  roomNames: 'messaging/room_names',
  /** One row: the totals of `/stats`. */
  totals: 'messaging/totals',
  /** Room id, time → message. A time is unique in its room, and nearly always the one in the message's id. */
  messages: 'messaging/messages',
  /** Room or agent id, message id → time; for messages and direct messages whose id holds another time. */
  places: 'messaging/message_places',
  /** Room id, time of the thread's first message, time → nothing. */
  threads: 'messaging/threads',
  /** Agent id, time → direct message. */
  inboxes: 'messaging/inboxes',
  /** Agent id → time of the newest direct message. */
  inboxClocks: 'messaging/inbox_clocks',
  /** Agent id, time → nothing; direct messages that were not acknowledged. */
  pending: 'messaging/pending',
  /** Time bucket, time, agent id, nonce → nothing. */
  nonces: 'messaging/nonces',
  /** Agent id → the bytes it posted in the current minute. */
  bytes: 'messaging/bytes',
  /** Kind, space, endpoint and whose → a rate window as it was a few seconds ago. */
  rateWindows: 'messaging/rate_windows',
  /** Address → block. */
  blocks: 'messaging/blocks',
} as const;

export const messagingFamilies: readonly string[] = Object.values(families);

const timeBytes = 6;
export const nothing = Buffer.alloc(0);
/** Greater than any time that fits into six bytes. */
export const endOfTimeMs = latestTimeMs;

export function encode(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

/** Only this backend writes the family, so the cast is safe here. */
export function decode<T>(value: Buffer): T {
  return JSON.parse(value.toString()) as T;
}

/** Undefined if the row cannot be read, for code that continues without it. `stoa doctor` reports it. */
export function decodeOrUndefined<T extends object>(value: Buffer): T | undefined {
  try {
    const row = decode<T | null>(value);
    return typeof row === 'object' && row !== null ? row : undefined;
  } catch {
    return undefined;
  }
}

export interface RoomRow extends Room {
  /** The time of the newest message ever, deleted or not. */
  lastTsMs: number;
  /** Its time in the index of active rooms; if missing, the time of its last activity. */
  listedAtMs?: number;
}

export type IdentityRow = Identity;
export type IdentityKeyRow = Omit<IdentityKey, 'untilMs'>;

export interface KeptRow {
  id: string;
  sealedSeed: string;
}

/** Room or agent, then a time. */
export function timedKey(id: Buffer, tsMs: number): Buffer {
  const key = Buffer.allocUnsafe(id.length + timeBytes);
  id.copy(key);
  key.writeUIntBE(Math.min(Math.max(0, tsMs), endOfTimeMs), id.length, timeBytes);
  return key;
}

/** The time in an id of a message. */
export function timeOfId(id: Buffer): number {
  return id.readUIntBE(0, timeBytes);
}

/** The time at the end of such a key. */
export function timeOfKey(key: Buffer): number {
  return key.readUIntBE(key.length - timeBytes, timeBytes);
}

export function activityKey(
  { lastActiveAtMs, listedAtMs = lastActiveAtMs }: RoomRow,
  roomKey: Buffer,
): Buffer {
  const key = Buffer.allocUnsafe(timeBytes + roomKey.length);
  key.writeUIntBE(listedAtMs, 0, timeBytes);
  roomKey.copy(key, timeBytes);
  return key;
}

export function roomOfActivityKey(key: Buffer): Buffer {
  return key.subarray(timeBytes);
}

/** The beginning of the names of one owner. Public rooms come under zeros. */
export function namesPrefix(owner: string | null): Buffer {
  return owner === null ? everyone : userKey(owner);
}

const everyone = Buffer.alloc(32);

/** The beginning of the keys of all rooms with this name. */
export function namePrefix(owner: string | null, name: string): Buffer {
  return Buffer.concat([namesPrefix(owner), Buffer.from(`${name}\0`)]);
}

/** The room of a key of `roomNames`. */
export function roomOfNameKey(key: Buffer): Buffer {
  return key.subarray(key.length - roomIdBytes);
}

const roomIdBytes = 16;

type StoredMessage = Omit<Message, 'roomId' | 'tsMs' | 'proof'>;

export function encodeMessage({ id, from, body, parentId, rootId, proof, serverSigned }: Message): Buffer {
  const stored = { id, from, body, parentId, rootId, serverSigned } satisfies StoredMessage;
  return encodeWithProof(stored, proof);
}

export function decodeMessage(key: Buffer, value: Buffer): Message {
  const proofAt = proofAtOf(value);
  const { id, from, body, parentId, rootId, serverSigned } = decodeBefore<StoredMessage>(value, proofAt);
  return {
    id,
    from,
    body,
    parentId,
    rootId,
    get proof() {
      return decodeProof(value, proofAt);
    },
    serverSigned,
    roomId: uuidOfBytes(key),
    tsMs: timeOfKey(key),
  };
}

type StoredDirect = Omit<DirectMessage, 'to' | 'tsMs' | 'proof'>;

export function encodeDirect({ id, from, body, proof, serverSigned, acknowledged }: DirectMessage): Buffer {
  return encodeWithProof({ id, from, body, serverSigned, acknowledged } satisfies StoredDirect, proof);
}

export function decodeDirect(key: Buffer, value: Buffer): DirectMessage {
  const proofAt = proofAtOf(value);
  const { id, from, body, serverSigned, acknowledged } = decodeBefore<StoredDirect>(value, proofAt);
  return {
    id,
    from,
    body,
    get proof() {
      return decodeProof(value, proofAt);
    },
    serverSigned,
    acknowledged,
    to: uuidOfBytes(key),
    tsMs: timeOfKey(key),
  };
}

/**
 * The proof is more than half of a row, and few readers ask for it. It follows the rest after a line feed,
 * which JSON does not contain, and is parsed when it is read.
 */
const lineFeed = 10;

function encodeWithProof(stored: object, proof: Proof | null): Buffer {
  const text = JSON.stringify(stored);
  return Buffer.from(proof === null ? text : `${text}\n${JSON.stringify(proof)}`);
}

function proofAtOf(value: Buffer): number | undefined {
  const end = value.indexOf(lineFeed);
  return end === -1 ? undefined : end + 1;
}

function decodeBefore<Stored>(value: Buffer, proofAt: number | undefined): Stored {
  return JSON.parse(value.toString('utf8', 0, proofAt)) as Stored;
}

function decodeProof(value: Buffer, proofAt: number | undefined): Proof | null {
  return proofAt === undefined ? null : decode<Proof>(value.subarray(proofAt));
}
