/** What `stoa doctor` checks of messaging: identities by their keys, rooms by their activity and their clock; the rest stands in the files beside this one. */
import {
  type Check,
  type Damage,
  beyondRepair,
  missingRow,
  surplusRow,
  wrongRow,
} from '../../kernel/inspect/doctor.js';
import type { Entry } from '../../kernel/engine.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Store } from '../../kernel/store.js';
import type { Reader } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { uuidBytes } from '../../../../messaging/uuid.js';
import { guardChecks } from './guards.js';
import { type MessageDoctors, inspectExpiry, messageChecks } from './messages.js';
import { inspectActivityTime, latestTsMs, newestTsMs } from './times.js';
import { TotalsDoctor } from './totals.js';
import { WordDoctor } from './words.js';
import { SharedTimers } from '../timers.js';
import { keyBytes, keysOf, readIdentity } from '../../messaging/identities.js';
import { expiryTimers } from '../../messaging/retention-timers.js';
import { readRoom } from '../../messaging/rooms.js';
import {
  type IdentityKeyRow,
  type IdentityRow,
  type KeptRow,
  type RoomRow,
  activityKey,
  decodeOrUndefined,
  encode,
  families,
  nothing,
  roomOfActivityKey,
  timedKey,
} from '../../messaging/rows.js';

const idBytes = 16;

/** The checks in the order in which repairs build on each other. */
export function messagingChecks({ root, limits }: Pick<Kernel, 'root' | 'limits'>): Check[] {
  const timers = new SharedTimers(Object.values(expiryTimers));
  const words = new WordDoctor(limits, timers);
  const totals = new TotalsDoctor();
  return [
    { family: families.agents, inspect: (reader, entry) => inspectIdentity(totals, reader, entry) },
    { family: families.agentsByKey, inspect: inspectKey },
    { family: families.agentKeys, inspect: inspectHistory },
    { family: families.keptAgents, inspect: inspectKept },
    {
      family: families.rooms,
      inspect: (reader, entry, store) => inspectRoom({ limits, timers, totals }, reader, entry, store),
    },
    { family: families.roomKeys, inspect: inspectRoomKey },
    { family: families.roomsByActivity, inspect: inspectActivity },
    ...words.checks(),
    ...messageChecks({ limits, timers, words, totals }),
    totals.check((store) => store === root),
    ...guardChecks(limits, timers),
  ];
}

function* inspectIdentity(totals: TotalsDoctor, reader: Reader, { key, value }: Entry): Generator<Damage> {
  totals.sawIdentity(key);
  const identity = readRow<IdentityRow>(value);
  if (typeof identity === 'string') {
    yield beyondRepair(families.agents, key, 'unreadable', identity);
    return;
  }
  const { id, publicKey, createdAtMs, updatedAtMs } = identity;
  const byKey = keyBytes(publicKey);
  if (!reader.get(families.agentsByKey, byKey)?.equals(key)) {
    yield missingRow(families.agentsByKey, byKey, `The identity ${id} cannot be found by its key.`, (tx) =>
      tx.put(families.agentsByKey, byKey, key),
    );
  }
  const known = keysOf(reader, id);
  if (known.some((each) => each.publicKey === publicKey)) return;
  const newest = known.at(-1);
  const fromMs = newest === undefined ? createdAtMs : Math.max(updatedAtMs, newest.fromMs + 1);
  const history = timedKey(key, fromMs);
  yield missingRow(
    families.agentKeys,
    history,
    `The key of the identity ${id} is not in its history.`,
    (tx) =>
      tx.put(
        families.agentKeys,
        history,
        encode({ publicKey, fromMs, proof: null } satisfies IdentityKeyRow),
      ),
  );
}

/** Retired keys stay: nobody may register them again. */
function* inspectKey(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const identity = readIdentity(reader, value);
  if (identity === undefined)
    yield surplusRow(families.agentsByKey, key, 'dangling', 'The identity of a key is not there.');
  else if (!keysOf(reader, identity.id).some(({ publicKey }) => keyBytes(publicKey).equals(key))) {
    yield surplusRow(
      families.agentsByKey,
      key,
      'wrong',
      `The identity ${identity.id} has never had this key.`,
    );
  }
}

function* inspectHistory(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const id = key.subarray(0, idBytes);
  const row = readRow<IdentityKeyRow>(value);
  if (reader.get(families.agents, id) === undefined)
    yield surplusRow(families.agentKeys, key, 'dangling', 'The identity of a key is not there.');
  else if (typeof row === 'string') yield beyondRepair(families.agentKeys, key, 'unreadable', row);
  else if (reader.get(families.agentsByKey, keyBytes(row.publicKey)) === undefined) {
    const byKey = keyBytes(row.publicKey);
    yield missingRow(families.agentsByKey, byKey, 'A key could be registered once more.', (tx) =>
      tx.put(families.agentsByKey, byKey, id),
    );
  }
}

function* inspectKept(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const kept = readRow<KeptRow>(value);
  if (typeof kept === 'string') yield beyondRepair(families.keptAgents, key, 'unreadable', kept);
  else if (reader.get(families.agents, uuidBytes(kept.id)) === undefined)
    yield surplusRow(
      families.keptAgents,
      key,
      'dangling',
      'The identity that is kept for a user is not there.',
    );
}

function* inspectRoom(
  { limits, timers, totals }: Pick<MessageDoctors, 'limits' | 'timers' | 'totals'>,
  reader: Reader,
  { key, value }: Entry,
  store: Store,
): Generator<Damage> {
  const room = readRow<RoomRow>(value);
  if (typeof room === 'string') {
    yield beyondRepair(families.rooms, key, 'unreadable', room);
    return;
  }
  totals.sawRoom(key, room);
  yield* inspectRoomClock(limits, reader, key, room, store);
  yield* inspectExpiry(
    timers,
    reader,
    store,
    'room',
    key,
    newestTsMs(reader, families.messages, key),
    limits.messageRetentionSeconds,
  );
  const ahead = [...inspectActivityTime(limits, key, room, store.nowMs())];
  yield* ahead;
  const active = activityKey(room, key);
  if (ahead.length > 0 || room.isPrivate || reader.get(families.roomsByActivity, active) !== undefined)
    return;
  yield missingRow(
    families.roomsByActivity,
    active,
    `The room ${room.id} is not in the list of rooms.`,
    (tx) => tx.put(families.roomsByActivity, active, nothing),
  );
}

/** Behind its messages, the clock would let the next one take the place of another; far ahead, it would let none in. */
function* inspectRoomClock(
  limits: Limits,
  reader: Reader,
  key: Buffer,
  room: RoomRow,
  store: Store,
): Generator<Damage> {
  const newestMs = newestTsMs(reader, families.messages, key);
  if (room.lastTsMs >= newestMs && room.lastTsMs <= Math.max(newestMs, latestTsMs(limits, store.nowMs())))
    return;
  yield wrongRow(families.rooms, key, `The clock of the room ${room.id} does not fit its messages.`, (tx) =>
    tx.put(families.rooms, key, encode({ ...room, lastTsMs: newestMs } satisfies RoomRow)),
  );
}

function* inspectRoomKey(reader: Reader, { key }: Entry): Generator<Damage> {
  if (reader.get(families.rooms, key) === undefined)
    yield surplusRow(families.roomKeys, key, 'dangling', 'The room of a key is not there.');
}

function* inspectActivity(reader: Reader, { key }: Entry): Generator<Damage> {
  const room = readRoom(reader, roomOfActivityKey(key));
  if (room === undefined)
    yield surplusRow(families.roomsByActivity, key, 'dangling', 'The room is not there.');
  else if (room.isPrivate)
    yield surplusRow(
      families.roomsByActivity,
      key,
      'wrong',
      `The private room ${room.id} is in the list of public ones.`,
    );
  else if (!activityKey(room, roomOfActivityKey(key)).equals(key))
    yield surplusRow(
      families.roomsByActivity,
      key,
      'duplicate',
      `The room ${room.id} was last active at another time.`,
    );
}

/** What a row says, or why it cannot be read. */
function readRow<Row extends object>(value: Buffer): Row | string {
  return decodeOrUndefined<Row>(value) ?? 'The row cannot be read: it is not a JSON object.';
}
