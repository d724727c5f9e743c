/** What `stoa doctor` checks of messages: threads and inboxes by their messages, and the clocks that keep times apart. */
import {
  type Check,
  type Damage,
  beyondRepair,
  missingRow,
  surplusRow,
  wrongRow,
} from '../../kernel/inspect/doctor.js';
import { type Entry, prefixRange } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Reader } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { type DirectMessage, type Message, isExpired } from '../../../../messaging/model.js';
import { ulidBytes } from '../../../../messaging/ulid.js';
import { inspectDirectTime, inspectMessageTime, latestTsMs, newestTsMs } from './times.js';
import type { TotalsDoctor } from './totals.js';
import type { WordDoctor } from './words.js';
import type { SharedTimers } from '../timers.js';
import { expiryTimers, roundedExpiryMs } from '../../messaging/retention-timers.js';
import { type Placed, placeKey, putPlace } from '../../messaging/places.js';
import { readRoom, threadKey } from '../../messaging/rooms.js';
import { decodeDirect, decodeMessage, families, nothing, timeOfKey, timedKey } from '../../messaging/rows.js';
import { indexedId, timeOf } from '../../messaging/words.js';

const idBytes = 16;
const timeBytes = 6;

export interface MessageDoctors {
  limits: Limits;
  timers: SharedTimers;
  words: WordDoctor;
  totals: TotalsDoctor;
}

export function messageChecks(doctors: MessageDoctors): Check[] {
  const { limits, timers } = doctors;
  return [
    {
      family: families.messages,
      inspect: (reader, entry, store) => inspectMessage(doctors, reader, entry, store),
    },
    { family: families.threads, inspect: inspectThread },
    {
      family: families.inboxes,
      inspect: (reader, entry, store) => inspectDirect(limits, reader, entry, store),
    },
    { family: families.places, inspect: inspectPlaceRow },
    { family: families.pending, inspect: inspectPending },
    {
      family: families.inboxClocks,
      inspect: (reader, entry, store) => inspectClock(limits, timers, reader, entry, store),
    },
  ];
}

/** The timer that takes the newest message away takes all older ones with it. */
export function* inspectExpiry(
  timers: SharedTimers,
  reader: Reader,
  store: Store,
  kind: 'room' | 'inbox',
  id: Buffer,
  newestMs: number,
  retentionSeconds: number,
): Generator<Damage> {
  if (newestMs === 0) return;
  const timer = {
    atMs: roundedExpiryMs(newestMs + retentionSeconds * 1000),
    kind: expiryTimers[kind],
    reference: id,
  };
  // What is due is taken away in steps, each with a timer of its own.
  yield* timers.inspect(reader, store, timer, 'Messages would stay in the store when their time is over.', {
    orAny: timer.atMs <= store.nowMs(),
  });
}

function* inspectMessage(
  { limits, words, totals }: MessageDoctors,
  reader: Reader,
  { key, value }: Entry,
  store: Store,
): Generator<Damage> {
  totals.sawMessage(key);
  const message =
    key.length === idBytes + timeBytes ? readable<Message>(() => decodeMessage(key, value)) : undefined;
  const id = ulidBytes(message?.id ?? '');
  if (message === undefined || id === undefined) {
    yield beyondRepair(families.messages, key, 'unreadable', 'The message cannot be read.');
    return;
  }
  const roomKey = Buffer.from(key.subarray(0, idBytes));
  const room = readRoom(reader, roomKey);
  if (room !== undefined) {
    const ahead = [...inspectMessageTime(limits, key, message, store.nowMs())];
    yield* ahead;
    // What leads to it is made with its new time.
    if (ahead.length > 0) return;
  }
  yield* inspectPlace(reader, roomKey, { id, tsMs: message.tsMs }, message.id);
  if (room === undefined)
    yield beyondRepair(families.messages, key, 'missing', `The room of the message ${message.id} is gone.`);
  if (message.rootId !== null) {
    const thread = threadKey(roomKey, message.rootId, message.tsMs);
    if (reader.get(families.threads, thread) === undefined) {
      yield missingRow(families.threads, thread, `The message ${message.id} is not in its thread.`, (tx) =>
        tx.put(families.threads, thread, nothing),
      );
    }
  }
  // The lists of what has expired may go before the message itself.
  if (room?.isPrivate === false && !isExpired(message.tsMs, limits.messageRetentionSeconds, store.nowMs()))
    yield* words.findable(reader, message, indexedId(id, message.tsMs), roomKey);
}

/** A message whose id holds another time is found by its id through a row of its own. */
function* inspectPlace(reader: Reader, owner: Buffer, placed: Placed, messageId: string): Generator<Damage> {
  const place = placeKey(owner, placed.id);
  if (timeOf(placed.id) === placed.tsMs || hasPlace(reader, place, placed.tsMs)) return;
  yield missingRow(families.places, place, `The message ${messageId} cannot be found by its id.`, (tx) =>
    putPlace(tx, owner, placed),
  );
}

function hasPlace(reader: Reader, place: Buffer, tsMs: number): boolean {
  const value = reader.get(families.places, place);
  return value?.length === timeBytes && timeOfKey(value) === tsMs;
}

/** Of a room or of an inbox: either may have the message. */
function* inspectPlaceRow(reader: Reader, { key, value }: Entry): Generator<Damage> {
  const owner = key.subarray(0, idBytes);
  const messageKey = timedKey(owner, value.length === timeBytes ? timeOfKey(value) : 0);
  const posted = reader.get(families.messages, messageKey);
  const sent = reader.get(families.inboxes, messageKey);
  const found = [
    posted === undefined ? undefined : readable(() => decodeMessage(messageKey, posted)),
    sent === undefined ? undefined : readable(() => decodeDirect(messageKey, sent)),
  ].some((message) => ulidBytes(message?.id ?? '')?.equals(key.subarray(idBytes)) === true);
  if (!found)
    yield surplusRow(families.places, key, 'dangling', 'The message of the row is not at its time.');
}

function* inspectThread(reader: Reader, { key }: Entry): Generator<Damage> {
  if (key.length !== idBytes + 2 * timeBytes) {
    yield surplusRow(families.threads, key, 'wrong', 'The key is not that of a message in a thread.');
    return;
  }
  const room = key.subarray(0, idBytes);
  const messageKey = timedKey(room, timeOfKey(key));
  const value = reader.get(families.messages, messageKey);
  if (value === undefined) {
    yield surplusRow(families.threads, key, 'dangling', 'The message of the thread is not there.');
    return;
  }
  const message = readable(() => decodeMessage(messageKey, value));
  // One that cannot be read was reported with its own family.
  if (message === undefined) return;
  if (message.rootId === null || !threadKey(room, message.rootId, message.tsMs).equals(key)) {
    yield surplusRow(families.threads, key, 'duplicate', `The message ${message.id} is not of this thread.`);
  }
}

function* inspectDirect(
  limits: Limits,
  reader: Reader,
  { key, value }: Entry,
  store: Store,
): Generator<Damage> {
  const message =
    key.length === idBytes + timeBytes ? readable<DirectMessage>(() => decodeDirect(key, value)) : undefined;
  const id = ulidBytes(message?.id ?? '');
  if (message === undefined || id === undefined || typeof message.acknowledged !== 'boolean') {
    yield beyondRepair(families.inboxes, key, 'unreadable', 'The direct message cannot be read.');
    return;
  }
  const agent = key.subarray(0, idBytes);
  const ahead = [...inspectDirectTime(limits, key, message, store.nowMs())];
  yield* ahead;
  if (ahead.length > 0) return;
  yield* inspectPlace(reader, agent, { id, tsMs: message.tsMs }, message.id);
  if (reader.get(families.agents, agent) === undefined)
    yield beyondRepair(
      families.inboxes,
      key,
      'missing',
      `The identity that the direct message ${message.id} is for is gone.`,
    );
  if (!message.acknowledged && reader.get(families.pending, key) === undefined) {
    yield missingRow(
      families.pending,
      key,
      `The direct message ${message.id} does not wait to be acknowledged.`,
      (tx) => tx.put(families.pending, key, nothing),
    );
  }
  // One that is there is judged in its own family; told once, with the first message of the inbox.
  if (
    reader.get(families.inboxClocks, agent) === undefined &&
    isFirst(reader, families.inboxes, agent, key)
  ) {
    yield missingRow(
      families.inboxClocks,
      agent,
      'The next direct message could take the place of another.',
      (tx) => tx.put(families.inboxClocks, agent, timedKey(nothing, newestTsMs(tx, families.inboxes, agent))),
    );
  }
}

function* inspectPending(reader: Reader, { key }: Entry): Generator<Damage> {
  const value = reader.get(families.inboxes, key);
  if (value === undefined) {
    yield surplusRow(families.pending, key, 'dangling', 'The direct message that waits is not there.');
    return;
  }
  if (readable(() => decodeDirect(key, value))?.acknowledged === true)
    yield surplusRow(families.pending, key, 'wrong', 'The direct message was acknowledged.');
}

function* inspectClock(
  limits: Limits,
  timers: SharedTimers,
  reader: Reader,
  { key, value }: Entry,
  store: Store,
): Generator<Damage> {
  if (reader.get(families.agents, key) === undefined) {
    yield surplusRow(families.inboxClocks, key, 'dangling', 'The identity of the inbox is not there.');
    return;
  }
  const newestMs = newestTsMs(reader, families.inboxes, key);
  const clockMs = value.length === timeBytes ? timeOfKey(value) : -1;
  // Ahead of its messages it may be: the newest of them were swept.
  if (clockMs < newestMs || clockMs > Math.max(newestMs, latestTsMs(limits, store.nowMs()))) {
    yield wrongRow(families.inboxClocks, key, 'The clock of an inbox does not fit its messages.', (tx) =>
      tx.put(families.inboxClocks, key, timedKey(nothing, newestMs)),
    );
  }
  yield* inspectExpiry(timers, reader, store, 'inbox', key, newestMs, limits.directRetentionSeconds);
}

function isFirst(reader: Reader, family: string, prefix: Buffer, key: Buffer): boolean {
  for (const first of reader.range(family, { ...prefixRange(prefix), limit: 1 }))
    return first.key.equals(key);
  return false;
}

/** What a row says, or undefined where it says nothing that can be read. */
function readable<Row>(decode: () => Row): Row | undefined {
  try {
    return decode();
  } catch {
    return undefined;
  }
}
