/**
 * What `stoa doctor` checks in messaging: the keys of identities, the activity and the clock of rooms. The
 * other files of this folder check the rest.
 */
import {
  type Check,
  type Damage,
  type Found,
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
import { uuidBytes, uuidOfBytes } from '../../../../messaging/identities/uuid.js';
import { retentionOf } from '../../../../messaging/rooms/visibility.js';
import { inspectIndexRow, inspectRows } from '../indexes.js';
import { guardChecks } from './guards.js';
import { type MessageDoctors, inspectExpiry, messageChecks } from './messages.js';
import { inspectActivityTime, latestTsMs, newestTsMs } from './times.js';
import { TotalsDoctor } from './totals.js';
import { type Examined, SharedTimers } from '../timers.js';
import { keysOf, readIdentity } from '../../messaging/identities/identities.js';
import { identityKeyRecords, roomRecords } from '../../messaging/indexes.js';
import { expiryTimers } from '../../messaging/retention-timers.js';
import { readRoom } from '../../messaging/rooms/rooms.js';
import {
  type IdentityKeyRow,
  type IdentityRow,
  type KeptRow,
  type RoomRow,
  decodeOrUndefined,
  families,
  roomOfActivityKey,
  roomOfNameKey,
  timedKey,
} from '../../messaging/rows.js';

const idBytes = 16;

/** The checks in the order in which repairs build on each other. */
export function messagingChecks({ root, limits }: Pick<Kernel, 'root' | 'limits'>): Check[] {
  const timers = new SharedTimers(Object.values(expiryTimers));
  const totals = new TotalsDoctor();
  return [
    { family: families.agents, inspect: (reader, entry) => inspectIdentity(totals, reader, entry) },
    { family: families.agentsByKey, inspect: inspectKey },
    { family: families.agentKeys, inspect: inspectHistory },
    { family: families.keptAgents, inspect: inspectKept },
    {
      family: families.rooms,
      inspect: (reader, entry, store, pass) =>
        inspectRoom({ limits, timers, totals }, { reader, store, pass }, entry),
    },
    { family: families.roomKeys, inspect: inspectRoomKey },
    { family: families.roomsByActivity, inspect: inspectActivity },
    { family: families.roomNames, inspect: inspectName },
    ...messageChecks({ limits, timers, totals }),
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
  const known = keysOf(reader, id);
  if (known.some((each) => each.publicKey === publicKey)) return;
  const newest = known.at(-1);
  const fromMs = newest === undefined ? createdAtMs : Math.max(updatedAtMs, newest.fromMs + 1);
  yield missingRow(
    families.agentKeys,
    timedKey(key, fromMs),
    `The current key of the identity ${id} is missing in its key history.`,
    (tx) => identityKeyRecords.put(tx, undefined, { agent: key, publicKey, fromMs, proof: null }),
  );
}

function* inspectKey(reader: Reader, entry: Entry): Generator<Damage> {
  const agent = entry.value;
  const identity = readIdentity(reader, agent);
  const rows =
    identity === undefined
      ? undefined
      : keysOf(reader, identity.id).flatMap((key) => identityKeyRecords.rowsOf({ agent, ...key }));
  yield* inspectIndexRow(families.agentsByKey, entry, rows, 'identity');
}

function* inspectHistory(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const agent = key.subarray(0, idBytes);
  const row = readRow<IdentityKeyRow>(value);
  if (reader.get(families.agents, agent) === undefined)
    yield surplusRow(families.agentKeys, key, 'dangling', 'The identity of a key does not exist.');
  else if (typeof row === 'string') yield beyondRepair(families.agentKeys, key, 'unreadable', row);
  else
    yield* inspectRows(
      reader,
      identityKeyRecords.rowsOf({ agent, ...row }),
      `a key of the identity ${uuidOfBytes(agent)}`,
    );
}

function* inspectKept(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const kept = readRow<KeptRow>(value);
  if (typeof kept === 'string') yield beyondRepair(families.keptAgents, key, 'unreadable', kept);
  else if (reader.get(families.agents, uuidBytes(kept.id)) === undefined)
    yield surplusRow(
      families.keptAgents,
      key,
      'dangling',
      'The server-held identity of a user does not exist.',
    );
}

function* inspectRoom(
  { limits, timers, totals }: Pick<MessageDoctors, 'limits' | 'timers' | 'totals'>,
  examined: Examined,
  { key, value }: Entry,
): Generator<Found> {
  const { reader, store } = examined;
  const room = readRow<RoomRow>(value);
  if (typeof room === 'string') {
    yield beyondRepair(families.rooms, key, 'unreadable', room);
    return;
  }
  totals.sawRoom(key, room);
  yield* inspectRoomClock(limits, reader, key, room, store);
  yield* inspectExpiry(
    timers,
    examined,
    'room',
    key,
    newestTsMs(reader, families.messages, key),
    retentionOf(room, limits),
  );
  const ahead = [...inspectActivityTime(limits, key, room, store.nowMs())];
  yield* ahead;
  if (ahead.length === 0) yield* inspectRows(reader, roomRecords.rowsOf(room), `the room ${room.id}`);
}

/**
 * A clock behind the messages would let the next one overwrite another; one far ahead would refuse every
 * message.
 */
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
  yield wrongRow(
    families.rooms,
    key,
    `The clock of the room ${room.id} is behind its newest message or too far ahead.`,
    (tx) => roomRecords.rewrite(tx, { ...room, lastTsMs: newestMs }),
  );
}

function* inspectRoomKey(reader: Reader, { key }: Entry): Generator<Damage> {
  if (reader.get(families.rooms, key) === undefined)
    yield surplusRow(families.roomKeys, key, 'dangling', 'The key belongs to a room that does not exist.');
}

function* inspectActivity(reader: Reader, entry: Entry): Generator<Damage> {
  const room = readRoom(reader, roomOfActivityKey(entry.key));
  const rows = room === undefined ? undefined : roomRecords.rowsOf(room);
  yield* inspectIndexRow(families.roomsByActivity, entry, rows, 'room');
}

function* inspectName(reader: Reader, entry: Entry): Generator<Damage> {
  const room = readRoom(reader, roomOfNameKey(entry.key));
  const rows = room === undefined ? undefined : roomRecords.rowsOf(room);
  yield* inspectIndexRow(families.roomNames, entry, rows, 'room');
}

/** The content of a row, or the reason why it cannot be read. */
function readRow<Row extends object>(value: Buffer): Row | string {
  return decodeOrUndefined<Row>(value) ?? 'The row cannot be read: it is not a JSON object.';
}
