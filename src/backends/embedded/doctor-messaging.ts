/** What `stoa doctor` checks of messaging: identities by their keys, rooms by their activity. */
import { messageOf } from '../../errors.js';
import { type Check, type Damage, beyondRepair, missingRow, surplusRow } from '../../kernel/doctor.js';
import type { Entry } from '../../kernel/engine.js';
import type { Reader } from '../../kernel/transaction.js';
import { uuidBytes } from '../../messaging/uuid.js';
import { keyBytes, keysOf, readIdentity } from './messaging-identities.js';
import { readRoom } from './messaging-rooms.js';
import { type IdentityKeyRow, type IdentityRow, type KeptRow, type RoomRow, activityKey, decode, encode, families, nothing, roomOfActivityKey, timedKey } from './messaging-rows.js';

const idBytes = 16;

export const messagingChecks: readonly Check[] = [
  { family: families.agents, inspect: inspectIdentity },
  { family: families.agentsByKey, inspect: inspectKey },
  { family: families.agentKeys, inspect: inspectHistory },
  { family: families.keptAgents, inspect: inspectKept },
  { family: families.rooms, inspect: inspectRoom },
  { family: families.roomKeys, inspect: inspectRoomKey },
  { family: families.roomsByActivity, inspect: inspectActivity },
];

function* inspectIdentity(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const identity = readRow<IdentityRow>(value);
  if (typeof identity === 'string') {
    yield beyondRepair(families.agents, key, 'unreadable', identity);
    return;
  }
  const { id, publicKey, createdAtMs, updatedAtMs } = identity;
  const byKey = keyBytes(publicKey);
  if (!reader.get(families.agentsByKey, byKey)?.equals(key)) {
    yield missingRow(families.agentsByKey, byKey, `The identity ${id} cannot be found by its key.`, (tx) => tx.put(families.agentsByKey, byKey, key));
  }
  const known = keysOf(reader, id);
  if (known.some((each) => each.publicKey === publicKey)) return;
  const newest = known.at(-1);
  const fromMs = newest === undefined ? createdAtMs : Math.max(updatedAtMs, newest.fromMs + 1);
  const history = timedKey(key, fromMs);
  yield missingRow(families.agentKeys, history, `The key of the identity ${id} is not in its history.`, (tx) =>
    tx.put(families.agentKeys, history, encode({ publicKey, fromMs, proof: null } satisfies IdentityKeyRow)),
  );
}

/** Retired keys stay: nobody may register them again. */
function* inspectKey(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const identity = readIdentity(reader, value);
  if (identity === undefined) yield surplusRow(families.agentsByKey, key, 'dangling', 'The identity of a key is not there.');
  else if (!keysOf(reader, identity.id).some(({ publicKey }) => keyBytes(publicKey).equals(key))) {
    yield surplusRow(families.agentsByKey, key, 'wrong', `The identity ${identity.id} has never had this key.`);
  }
}

function* inspectHistory(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const id = key.subarray(0, idBytes);
  const row = readRow<IdentityKeyRow>(value);
  if (reader.get(families.agents, id) === undefined) yield surplusRow(families.agentKeys, key, 'dangling', 'The identity of a key is not there.');
  else if (typeof row === 'string') yield beyondRepair(families.agentKeys, key, 'unreadable', row);
  else if (reader.get(families.agentsByKey, keyBytes(row.publicKey)) === undefined) {
    const byKey = keyBytes(row.publicKey);
    yield missingRow(families.agentsByKey, byKey, 'A key could be registered once more.', (tx) => tx.put(families.agentsByKey, byKey, id));
  }
}

function* inspectKept(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const kept = readRow<KeptRow>(value);
  if (typeof kept === 'string') yield beyondRepair(families.keptAgents, key, 'unreadable', kept);
  else if (reader.get(families.agents, uuidBytes(kept.id)) === undefined) yield surplusRow(families.keptAgents, key, 'dangling', 'The identity that is kept for a user is not there.');
}

function* inspectRoom(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const room = readRow<RoomRow>(value);
  if (typeof room === 'string') {
    yield beyondRepair(families.rooms, key, 'unreadable', room);
    return;
  }
  const active = activityKey(room, key);
  if (room.isPrivate || reader.get(families.roomsByActivity, active) !== undefined) return;
  yield missingRow(families.roomsByActivity, active, `The room ${room.id} is not in the list of rooms.`, (tx) => tx.put(families.roomsByActivity, active, nothing));
}

function* inspectRoomKey(reader: Reader, { key }: Entry): Generator<Damage> {
  if (reader.get(families.rooms, key) === undefined) yield surplusRow(families.roomKeys, key, 'dangling', 'The room of a key is not there.');
}

function* inspectActivity(reader: Reader, { key }: Entry): Generator<Damage> {
  const room = readRoom(reader, roomOfActivityKey(key));
  if (room === undefined) yield surplusRow(families.roomsByActivity, key, 'dangling', 'The room is not there.');
  else if (room.isPrivate) yield surplusRow(families.roomsByActivity, key, 'wrong', `The private room ${room.id} is in the list of public ones.`);
  else if (!activityKey(room, roomOfActivityKey(key)).equals(key)) yield surplusRow(families.roomsByActivity, key, 'duplicate', `The room ${room.id} was last active at another time.`);
}

/** What a row says, or why it cannot be read. */
function readRow<Row>(value: Buffer): Row | string {
  try {
    return decode<Row>(value);
  } catch (error) {
    return `The row is not JSON: ${messageOf(error)}.`;
  }
}
