/**
 * What `stoa doctor` checks of messages: threads and inboxes by their messages, and the clocks that keep
 * times apart.
 */
import { type Damage, type ExaminedRow, missingRow } from '../../kernel/inspect/damage.js';
import type { Check, Found } from '../../kernel/inspect/doctor.js';
import { prefixRange } from '../../kernel/engine.js';
import { kernelFamilies } from '../../kernel/families.js';
import type { Store } from '../../kernel/store.js';
import { timerOf } from '../../kernel/timers/timers.js';
import type { Reader } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import type { DirectMessage, Message } from '../../../../messaging/model.js';
import { ulidBytes } from '../../../../messaging/messages/ulid.js';
import { indexCheck, inspectIndexRow, inspectRows, readable } from '../indexes.js';
import { inspectDirectTime, inspectMessageTime, latestTsMs, newestTsMs } from './times.js';
import type { TotalsDoctor } from './totals.js';
import type { SharedTimers } from '../timers.js';
import { expiryTimers, roundedExpiryMs } from '../../messaging/retention-timers.js';
import { directRecords, messageRecords } from '../../messaging/indexes.js';
import { readRoom } from '../../messaging/rooms/rooms.js';
import { decodeDirect, decodeMessage, families, nothing, timeOfKey, timedKey } from '../../messaging/rows.js';

const idBytes = 16;
const timeBytes = 6;

export interface MessageDoctors {
  limits: Limits;
  timers: SharedTimers;
  totals: TotalsDoctor;
}

export function messageChecks(doctors: MessageDoctors): Check[] {
  const { limits, timers } = doctors;
  return [
    { family: families.messages, inspect: (row) => inspectMessage(doctors, row) },
    { family: families.threads, inspect: inspectThread },
    { family: families.inboxes, inspect: (row) => inspectDirect(limits, row) },
    { family: families.places, inspect: inspectPlaceRow },
    indexCheck(families.pending, 'direct message', directRecords, ({ reader, key }) => {
      const value = reader.get(families.inboxes, key);
      return value && decodeDirect(key, value);
    }),
    { family: families.inboxClocks, inspect: (row) => inspectClock(limits, timers, row) },
  ];
}

/** The timer that removes the newest message also removes all older ones. */
export function* inspectExpiry(
  timers: SharedTimers,
  row: ExaminedRow,
  kind: 'room' | 'inbox',
  newestMs: number,
  retentionSeconds: number,
): Generator<Found> {
  if (newestMs === 0) return;
  const timer = {
    atMs: roundedExpiryMs(newestMs + retentionSeconds * 1000),
    kind: expiryTimers[kind],
    reference: row.key,
  };
  // Expired messages are removed in steps, each with its own timer.
  yield* timers.inspect(row, timer, 'The timer that deletes expired messages is missing.', {
    // Each look at a room sets the timer of the next one, also after the room's retention was changed.
    orAny: kind === 'room' || timer.atMs <= row.store.nowMs(),
  });
}

function* inspectMessage({ limits, totals }: MessageDoctors, row: ExaminedRow): Generator<Damage> {
  const { reader, store, key } = row;
  const roomKey = Buffer.from(key.subarray(0, idBytes));
  const room = readRoom(reader, roomKey);
  totals.sawMessage(key, room);
  const message = wholeOf<Message>(row, decodeMessage);
  const id = ulidBytes(message?.id ?? '');
  if (message === undefined || id === undefined) {
    yield row.unreadable('The message cannot be read.');
    return;
  }
  if (room !== undefined) {
    const ahead = [...inspectMessageTime(limits, row, message)];
    yield* ahead;
    // Its index rows are written with its new time.
    if (ahead.length > 0) return;
  }
  yield* inspectRows(reader, messageRecords.rowsOf({ message, id }), `the message ${message.id}`);
  if (room === undefined && !isBeingRemoved(reader, store, roomKey))
    yield row.orphan(`The room of the message ${message.id} does not exist.`);
}

/** The room was deleted, and the sweeper is removing its messages. */
function isBeingRemoved(reader: Reader, store: Store, roomKey: Buffer): boolean {
  const end = Buffer.alloc(timerTimeBytes);
  end.writeBigUInt64BE(BigInt(store.nowMs() + 1));
  for (const { key } of reader.range(kernelFamilies.timers, { lt: end })) {
    const { kind, reference } = timerOf(key);
    if (kind === expiryTimers.room && reference.equals(roomKey)) return true;
  }
  return false;
}

const timerTimeBytes = 8;

/** The message may be in a room or in an inbox. */
function* inspectPlaceRow(row: ExaminedRow): Generator<Damage> {
  const { reader, key, value } = row;
  const messageKey = timedKey(key.subarray(0, idBytes), value.length === timeBytes ? timeOfKey(value) : 0);
  const posted = reader.get(families.messages, messageKey);
  const sent = reader.get(families.inboxes, messageKey);
  const found = [
    posted && readable(() => decodeMessage(messageKey, posted)),
    sent && readable(() => decodeDirect(messageKey, sent)),
  ].some((message) => ulidBytes(message?.id ?? '')?.equals(key.subarray(idBytes)) === true);
  if (!found) yield row.dangling('The row names a message that is not stored at that time.');
}

function* inspectThread(row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  if (key.length !== idBytes + 2 * timeBytes) {
    yield row.surplus('The key is not the key of a message in a thread.');
    return;
  }
  const messageKey = timedKey(key.subarray(0, idBytes), timeOfKey(key));
  const value = reader.get(families.messages, messageKey);
  if (value === undefined) {
    yield* inspectIndexRow(row, undefined, 'message');
    return;
  }
  const message = readable(() => decodeMessage(messageKey, value));
  const id = ulidBytes(message?.id ?? '');
  // A message that cannot be read was reported with its own family.
  if (message === undefined || id === undefined) return;
  yield* inspectIndexRow(row, messageRecords.rowsOf({ message, id }), 'message');
}

function* inspectDirect(limits: Limits, row: ExaminedRow): Generator<Damage> {
  const { reader, key } = row;
  const message = wholeOf<DirectMessage>(row, decodeDirect);
  const id = ulidBytes(message?.id ?? '');
  if (message === undefined || id === undefined || typeof message.acknowledged !== 'boolean') {
    yield row.unreadable('The direct message cannot be read.');
    return;
  }
  const agent = key.subarray(0, idBytes);
  const ahead = [...inspectDirectTime(limits, row, message)];
  yield* ahead;
  if (ahead.length > 0) return;
  yield* inspectRows(reader, directRecords.rowsOf(message), `the direct message ${message.id}`);
  if (reader.get(families.agents, agent) === undefined)
    yield row.orphan(`The recipient of the direct message ${message.id} does not exist.`);
  // An existing clock is checked in its own family. A missing one is reported once, with the first message.
  if (reader.get(families.inboxClocks, agent) === undefined && isFirst(reader, families.inboxes, agent, key))
    yield missingRow(
      families.inboxClocks,
      agent,
      'The clock of an inbox is missing: the next direct message could overwrite another.',
      (tx) => tx.put(families.inboxClocks, agent, timedKey(nothing, newestTsMs(tx, families.inboxes, agent))),
    );
}

function* inspectClock(limits: Limits, timers: SharedTimers, row: ExaminedRow): Generator<Found> {
  const { reader, store, key, value } = row;
  if (reader.get(families.agents, key) === undefined) {
    yield row.dangling('The inbox belongs to an identity that does not exist.');
    return;
  }
  const newestMs = newestTsMs(reader, families.inboxes, key);
  const clockMs = value.length === timeBytes ? timeOfKey(value) : -1;
  // The clock may be ahead of the stored messages, because the newest may have expired.
  if (clockMs < newestMs || clockMs > Math.max(newestMs, latestTsMs(limits, store.nowMs())))
    yield row.wrong(
      'The clock of an inbox is behind its newest message or too far ahead.',
      timedKey(nothing, newestMs),
    );
  yield* inspectExpiry(timers, row, 'inbox', newestMs, limits.directRetentionSeconds);
}

function isFirst(reader: Reader, family: string, prefix: Buffer, key: Buffer): boolean {
  for (const first of reader.range(family, { ...prefixRange(prefix), limit: 1 }))
    return first.key.equals(key);
  return false;
}

/** A copy, which also reads the proof: that of a decoded message is parsed only when it is asked for. */
function wholeOf<Row extends object>(
  { key, value }: ExaminedRow,
  decode: (key: Buffer, value: Buffer) => Row,
): Row | undefined {
  return key.length === idBytes + timeBytes ? readable(() => ({ ...decode(key, value) })) : undefined;
}
