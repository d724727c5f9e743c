/**
 * What `stoa doctor` checks in messaging: the keys of identities, the activity and the clock of rooms. The
 * other files of this folder check the rest.
 */
import { type Damage, type ExaminedRow, missingRow } from '../../kernel/inspect/damage.js';
import type { Check, Found } from '../../kernel/inspect/doctor.js';
import type { Kernel } from '../../kernel/kernel.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { uuidBytes, uuidOfBytes } from '../../../../messaging/identities/uuid.js';
import { retentionOf } from '../../../../messaging/rooms/visibility.js';
import { indexCheck, inspectIndexRow, inspectRows } from '../indexes.js';
import { guardChecks } from './guards.js';
import { type MessageDoctors, inspectExpiry, messageChecks } from './messages.js';
import { inspectActivityTime, latestTsMs, newestTsMs } from './times.js';
import { TotalsDoctor } from './totals.js';
import { SharedTimers } from '../timers.js';
import { keysOf, readIdentity } from '../../messaging/identities/identities.js';
import { identityKeyRecords, roomRecords } from '../../messaging/indexes.js';
import { expiryTimers } from '../../messaging/retention-timers.js';
import { readRoom } from '../../messaging/rooms/rooms.js';
import {
  type IdentityKeyRow,
  type IdentityRow,
  type KeptRow,
  type RoomRow,
  decode,
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
    { family: families.agents, inspect: (row) => inspectIdentity(totals, row) },
    { family: families.agentsByKey, inspect: inspectKey },
    { family: families.agentKeys, inspect: inspectHistory },
    { family: families.keptAgents, inspect: inspectKept },
    { family: families.rooms, inspect: (row) => inspectRoom({ limits, timers, totals }, row) },
    { family: families.roomKeys, inspect: inspectRoomKey },
    indexCheck(families.roomsByActivity, 'room', roomRecords, ({ reader, key }) =>
      readRoom(reader, roomOfActivityKey(key)),
    ),
    indexCheck(families.roomNames, 'room', roomRecords, ({ reader, key }) =>
      readRoom(reader, roomOfNameKey(key)),
    ),
    ...messageChecks({ limits, timers, totals }),
    totals.check((store) => store === root),
    ...guardChecks(limits, timers),
  ];
}

function* inspectIdentity(totals: TotalsDoctor, row: ExaminedRow): Generator<Damage> {
  totals.sawIdentity(row.key);
  const { id, publicKey, createdAtMs, updatedAtMs } = decode<IdentityRow>(row.value);
  const known = keysOf(row.reader, id);
  if (known.some((each) => each.publicKey === publicKey)) return;
  const newest = known.at(-1);
  const fromMs = newest === undefined ? createdAtMs : Math.max(updatedAtMs, newest.fromMs + 1);
  yield missingRow(
    families.agentKeys,
    timedKey(row.key, fromMs),
    `The current key of the identity ${id} is missing in its key history.`,
    (tx) => identityKeyRecords.put(tx, undefined, { agent: row.key, publicKey, fromMs, proof: null }),
  );
}

function* inspectKey(row: ExaminedRow): Generator<Damage> {
  const agent = row.value;
  const identity = readIdentity(row.reader, agent);
  const rows =
    identity &&
    keysOf(row.reader, identity.id).flatMap((key) => identityKeyRecords.rowsOf({ agent, ...key }));
  yield* inspectIndexRow(row, rows, 'identity');
}

function* inspectHistory(row: ExaminedRow): Generator<Damage> {
  const agent = row.key.subarray(0, idBytes);
  if (row.reader.get(families.agents, agent) === undefined) {
    yield row.dangling('The identity of a key does not exist.');
    return;
  }
  const rows = identityKeyRecords.rowsOf({ agent, ...decode<IdentityKeyRow>(row.value) });
  yield* inspectRows(row.reader, rows, `a key of the identity ${uuidOfBytes(agent)}`);
}

function* inspectKept(row: ExaminedRow): Generator<Damage> {
  const { id } = decode<KeptRow>(row.value);
  if (row.reader.get(families.agents, uuidBytes(id)) === undefined)
    yield row.dangling('The server-held identity of a user does not exist.');
}

function* inspectRoom(
  { limits, timers, totals }: Pick<MessageDoctors, 'limits' | 'timers' | 'totals'>,
  row: ExaminedRow,
): Generator<Found> {
  const { reader, key } = row;
  const room = decode<RoomRow>(row.value);
  totals.sawRoom(key, room);
  const newestMs = newestTsMs(reader, families.messages, key);
  yield* inspectRoomClock(limits, row, room, newestMs);
  yield* inspectExpiry(timers, row, 'room', newestMs, retentionOf(room, limits));
  const ahead = [...inspectActivityTime(limits, row, room)];
  yield* ahead;
  if (ahead.length === 0) yield* inspectRows(reader, roomRecords.rowsOf(room), `the room ${room.id}`);
}

/**
 * A clock behind the messages would let the next one overwrite another; one far ahead would refuse every
 * message.
 */
function* inspectRoomClock(
  limits: Limits,
  row: ExaminedRow,
  room: RoomRow,
  newestMs: number,
): Generator<Damage> {
  const latestMs = Math.max(newestMs, latestTsMs(limits, row.store.nowMs()));
  if (room.lastTsMs < newestMs || room.lastTsMs > latestMs)
    yield row.wrong(`The clock of the room ${room.id} is behind its newest message or too far ahead.`, (tx) =>
      roomRecords.rewrite(tx, { ...room, lastTsMs: newestMs }),
    );
}

function* inspectRoomKey(row: ExaminedRow): Generator<Damage> {
  if (row.reader.get(families.rooms, row.key) === undefined)
    yield row.dangling('The key belongs to a room that does not exist.');
}
