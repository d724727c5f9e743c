/**
 * The search index of messages in a directory. A post writes its words as one waiting row, because a row for each
 * word would cost more than the rest of the post. Now and then the oldest waiting rows are moved into a segment.
 *
 * A segment has the messages between two times. It has one or more lists for each word, with the messages that
 * contain the word. Keys begin with the segment, so a new segment is appended to the store, however large the
 * store is. A search reads the segments from the newest to the oldest. The lists of one word in a segment do not
 * overlap, and the key of a list ends with its oldest message. So the list that can contain a message is the
 * newest one that begins at or before that message.
 */
import { prefixRange } from '../../kernel/engine.js';
import type { Reader, Transaction } from '../../kernel/transaction.js';
import { isExpired } from '../../../../messaging/model.js';
import { isOwnWord } from '../../../../messaging/messages/tokenizer.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { newUlidBytes } from '../../../../messaging/messages/ulid.js';
import { families, nothing } from '../rows.js';
import { expiryTimers, roundedExpiryMs } from '../retention-timers.js';

export const idBytes = 16;
const roomBytes = 16;
export const segmentBytes = 6;
/** A list is made of such entries: a message's id, then its room; oldest first. */
export const entryBytes = idBytes + roomBytes;
/** A list of this many entries is read at once. Late messages may make it twice as long. */
const entriesPerList = 256;

/** The part of a message that is indexed. */
export interface MessageWords {
  readonly id: Buffer;
  readonly room: Buffer;
  readonly words: readonly string[];
}

/** The words of a message that are not indexed yet: the waiting row, decoded only when needed. */
export class WaitingWords implements MessageWords {
  readonly id: Buffer;
  readonly row: Buffer;

  constructor(id: Buffer, row: Buffer) {
    this.id = id;
    this.row = row;
  }

  get room(): Buffer {
    return this.row.subarray(0, roomBytes);
  }

  get words(): string[] {
    return this.row.toString('utf8', roomBytes).split('\0');
  }
}

/** The id of a message in the index: its own id, with its time in the room if the two differ. */
export function indexedId(id: Buffer, tsMs: number): Buffer {
  if (timeOf(id) === tsMs) return id;
  const indexed = Buffer.from(id);
  indexed.writeUIntBE(tsMs, 0, 6);
  return indexed;
}

/** Makes a message findable, in the commit that stores it. */
export function indexMessage(tx: Transaction, room: Buffer, id: Buffer, words: readonly string[]): void {
  if (words.length > 0)
    tx.put(families.waitingWords, id, Buffer.concat([room, Buffer.from(words.join('\0'))]));
}

/**
 * Indexed words stay until their list is removed. A search reads the message itself and skips a deleted one.
 */
export function forgetMessage(tx: Transaction, id: Buffer): void {
  tx.delete(families.waitingWords, id);
}

/** The beginning of the keys of every list of a word in a segment. */
export function wordPrefix(segment: number, word: string): Buffer {
  const name = Buffer.from(`${word}\0`);
  return Buffer.concat([segmentKey(segment), name]);
}

export function segmentKey(startMs: number): Buffer {
  const key = Buffer.allocUnsafe(6);
  key.writeUIntBE(startMs, 0, 6);
  return key;
}

/**
 * The times at which segments begin, in order. A key that is not a time is damage; the search continues
 * without it.
 */
export function readSegments(reader: Reader): number[] {
  return Array.from(reader.range(families.wordSegments, {}), ({ key }) => key).flatMap((key) =>
    key.length === segmentBytes ? [timeOf(key)] : [],
  );
}

/** The index of the segment of a time. The first segment also contains all earlier times. */
export function segmentOf(segments: readonly number[], tsMs: number): number {
  let low = 0;
  let high = segments.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((segments[middle] as number) <= tsMs) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

/** The list with the newest message of a word not above `id`: its key and its entries. */
export function listAt(
  reader: Reader,
  prefix: Buffer,
  id: Buffer,
): { key: Buffer; entries: Buffer } | undefined {
  const bounds = { gte: prefix, lte: Buffer.concat([prefix, id]), reverse: true, limit: 1 };
  for (const { key, value } of reader.range(families.wordLists, bounds)) return { key, entries: value };
  return undefined;
}

/** The index of the newest entry not above `id` among the first `count`; -1 if there is none. */
export function lastNotAbove(entries: Buffer, count: number, id: Buffer): number {
  let low = 0;
  let high = count;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (entries.compare(id, 0, idBytes, middle * entryBytes, middle * entryBytes + idBytes) <= 0)
      low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/**
 * Indexes waiting messages, given oldest first, and records the new lists, so that they can be removed when
 * they expire.
 */
export function fileWords(tx: Transaction, waiting: readonly MessageWords[], retentionSeconds: number): void {
  const newest = newestFiled(tx);
  const segments = readSegments(tx);
  // After everything that is indexed, so that segments do not overlap.
  const startMs =
    segments.length === 0
      ? 0
      : Math.max(segments.at(-1) as number, newest === undefined ? 0 : timeOf(newest)) + 1;
  const made: Buffer[] = [];
  const byWord = new Map<string, Buffer[]>();
  for (const { id, room, words } of waiting) {
    const entry = Buffer.concat([id, room]);
    const tsMs = timeOf(id);
    for (const word of words) {
      const known = byWord.get(word);
      if (tsMs < startMs)
        fileLate(tx, wordPrefix(segments[segmentOf(segments, tsMs)] as number, word), entry, made);
      else if (known === undefined) byWord.set(word, [entry]);
      else known.push(entry);
    }
    tx.delete(families.waitingWords, id);
  }
  if (byWord.size > 0) tx.put(families.wordSegments, segmentKey(startMs), nothing);
  for (const [word, entries] of byWord) {
    const prefix = wordPrefix(startMs, word);
    for (let at = 0; at < entries.length; at += entriesPerList)
      putList(tx, prefix, Buffer.concat(entries.slice(at, at + entriesPerList)), made);
  }
  const last = waiting.at(-1)?.id;
  if (last === undefined || made.length === 0) return;
  const upTo = newest !== undefined && Buffer.compare(newest, last) > 0 ? newest : last;
  rememberLists(tx, upTo, made, roundedExpiryMs(timeOf(last) + retentionSeconds * 1000));
}

/** A message that is older than the indexed ones is added to the list of its time. */
function fileLate(tx: Transaction, prefix: Buffer, entry: Buffer, made: Buffer[]): void {
  const id = entry.subarray(0, idBytes);
  const list = listAt(tx, prefix, id);
  if (list === undefined) {
    putList(tx, prefix, entry, made);
    return;
  }
  const { key, entries } = list;
  const count = entries.length / entryBytes;
  const at = lastNotAbove(entries, count, id);
  if (entries.compare(id, 0, idBytes, at * entryBytes, at * entryBytes + idBytes) === 0) return;
  const cut = (at + 1) * entryBytes;
  const joined = Buffer.concat([entries.subarray(0, cut), entry, entries.subarray(cut)]);
  if (count < 2 * entriesPerList) {
    tx.put(families.wordLists, key, joined);
    return;
  }
  const half = (count >> 1) * entryBytes;
  tx.put(families.wordLists, key, joined.subarray(0, half));
  putList(tx, prefix, joined.subarray(half), made);
}

function putList(tx: Transaction, prefix: Buffer, entries: Buffer, made: Buffer[]): void {
  const key = Buffer.concat([prefix, entries.subarray(0, idBytes)]);
  tx.put(families.wordLists, key, entries);
  made.push(key);
}

/** The id of the newest message that was ever indexed: the first part of the last batch's key. */
export function newestFiled(reader: Reader): Buffer | undefined {
  for (const { key } of reader.range(families.wordBatches, { reverse: true, limit: 1 }))
    return key.subarray(0, idBytes);
  return undefined;
}

/** A batch: the keys of lists that expire together, each after its length. */
export function rememberLists(tx: Transaction, upTo: Buffer, keys: readonly Buffer[], atMs: number): void {
  const parts = keys.flatMap((key) => {
    const length = Buffer.allocUnsafe(2);
    length.writeUInt16BE(key.length);
    return [length, key];
  });
  const batch = Buffer.concat([upTo, newUlidBytes(tx.nowMs).bytes]);
  tx.put(families.wordBatches, batch, Buffer.concat(parts));
  tx.schedule({ atMs, kind: expiryTimers.words, reference: batch });
}

/** The keys in a batch, or undefined if its bytes are invalid. */
export function batchedLists(value: Buffer): Buffer[] | undefined {
  const keys: Buffer[] = [];
  for (let at = 0; at < value.length;) {
    if (at + 2 > value.length) return undefined;
    const end = at + 2 + value.readUInt16BE(at);
    if (end > value.length) return undefined;
    keys.push(value.subarray(at + 2, end));
    at = end;
  }
  return keys;
}

/** Removes the lists of a batch whose messages have all expired. Late messages may keep some of them. */
export function expireLists(tx: Transaction, batch: Buffer, limits: Limits): void {
  const value = tx.get(families.wordBatches, batch);
  if (value === undefined) return;
  const alive: Buffer[] = [];
  let nextMs = 0;
  for (const key of batchedLists(value) ?? []) {
    const entries = tx.get(families.wordLists, key);
    if (entries === undefined) continue;
    const lastMs = timeOf(entries.subarray(entries.length - entryBytes));
    const retentionSeconds = listRetention(key, limits);
    if (isExpired(lastMs, retentionSeconds, tx.nowMs)) {
      tx.delete(families.wordLists, key);
    } else {
      alive.push(key);
      nextMs = Math.max(nextMs, lastMs + retentionSeconds * 1000);
    }
  }
  tx.delete(families.wordBatches, batch);
  const { messageRetentionSeconds, ownRoomRetentionSeconds } = limits;
  const shorterSeconds = Math.min(messageRetentionSeconds, ownRoomRetentionSeconds);
  // A segment ends where the next one begins. The last segment stays, so that the next one begins after it.
  const segments = readSegments(tx);
  for (const [at, segment] of segments.slice(0, -1).entries()) {
    if (!isExpired(segments[at + 1] as number, shorterSeconds, tx.nowMs)) break;
    if (!hasLists(tx, segment)) tx.delete(families.wordSegments, segmentKey(segment));
  }
  if (alive.length > 0) rememberLists(tx, batch.subarray(0, idBytes), alive, roundedExpiryMs(nextMs));
}

/** How long a list is kept: as long as the messages of public rooms, or of users' rooms. */
export function listRetention(key: Buffer, limits: Limits): number {
  const word = key.toString('utf8', segmentBytes, key.length - idBytes - 1);
  return isOwnWord(word) ? limits.ownRoomRetentionSeconds : limits.messageRetentionSeconds;
}

/** Lists of users' rooms may be left when those of public rooms have expired. */
function hasLists(reader: Reader, segment: number): boolean {
  for (const _ of reader.range(families.wordLists, { ...prefixRange(segmentKey(segment)), limit: 1 }))
    return true;
  return false;
}

/** The time in an id. */
export function timeOf(id: Buffer): number {
  return id.readUIntBE(0, 6);
}

/** All waiting messages, oldest first. */
export function readWaiting(reader: Reader): WaitingWords[] {
  return Array.from(
    reader.range(families.waitingWords, {}),
    ({ key, value }) => new WaitingWords(Buffer.from(key), Buffer.from(value)),
  );
}
