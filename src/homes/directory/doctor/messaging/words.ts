/**
 * What `stoa doctor` checks in the search index: every message of a room without a key is found by
 * each of its words, and by no others; every list is removed when its messages have expired. A wrong list is removed as a
 * whole, and its messages are indexed again.
 */
import { LRUCache } from 'lru-cache';
import type { Check, Damage } from '../../kernel/inspect/doctor.js';
import { missingRow, surplusRow, wrongRow } from '../../kernel/inspect/doctor.js';
import { type Entry, prefixRange } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Reader } from '../../kernel/transaction.js';
import type { Limits } from '../../../../core/settings/limits.js';
import { type Message, isExpired } from '../../../../messaging/model.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { roomWords } from '../../../../messaging/messages/tokenizer.js';
import { ulidBytes } from '../../../../messaging/messages/ulid.js';
import { latestTsMs } from './times.js';
import type { SharedTimers } from '../timers.js';
import { expiryTimers, roundedExpiryMs } from '../../messaging/retention-timers.js';
import { readRoom } from '../../messaging/rooms.js';
import { type RoomRow, decodeMessage, families, nothing, timedKey } from '../../messaging/rows.js';
import {
  batchedLists,
  entryBytes,
  idBytes,
  indexMessage,
  indexedId,
  lastNotAbove,
  listAt,
  listRetention,
  newestFiled,
  readSegments,
  rememberLists,
  segmentBytes,
  segmentKey,
  segmentOf,
  timeOf,
  WaitingWords,
  wordPrefix,
} from '../../messaging/search/words.js';

const batchBytes = 2 * idBytes;
/**
 * Messages whose words are remembered: the lists of a segment name the same ones again and again. It saves 36
 * % of a run over 2,600 messages.
 */
const messagesRemembered = 10_000;

export class WordDoctor {
  readonly #limits: Limits;
  readonly #timers: SharedTimers;
  readonly #batches = new ListsInBatches();
  /**
   * Segments that lists name but that do not exist, each with the first list that named it, so that each is
   * reported once.
   */
  readonly #lost = new Map<number, Buffer>();
  readonly #wordsOf = new LRUCache<string, ReadonlySet<string> | 'gone'>({ max: messagesRemembered });
  #segments: { newest: number | undefined; times: readonly number[] } = { newest: undefined, times: [] };

  constructor(limits: Limits, timers: SharedTimers) {
    this.#limits = limits;
    this.#timers = timers;
  }

  /** In the order of repair; `findable` belongs after all of them. */
  checks(): Check[] {
    return [
      { family: families.waitingWords, inspect: (reader, entry) => this.#inspectWaiting(reader, entry) },
      {
        family: families.wordBatches,
        inspect: (reader, entry, store) => this.#inspectBatch(reader, entry, store),
      },
      {
        family: families.wordLists,
        inspect: (reader, entry, store) => this.#inspectList(reader, entry, store),
      },
      {
        family: families.wordSegments,
        inspect: (reader, entry, store) => this.#inspectSegment(reader, entry, store),
      },
    ];
  }

  /** Whether a search finds this message by each of its words. */
  *findable(reader: Reader, room: RoomRow, message: Message, id: Buffer): Generator<Damage> {
    const roomKey = uuidBytes(room.id);
    const words = roomWords(room, message.body);
    const waiting = reader.get(families.waitingWords, id);
    const waits = new Set(waiting === undefined ? [] : new WaitingWords(id, waiting).words);
    const lost = words.filter((word) => !waits.has(word) && !this.#isFiled(reader, word, id, roomKey));
    if (lost.length === 0) return;
    yield missingRow(
      families.waitingWords,
      id,
      `${lost.length} words of the message ${message.id} are missing in the search index.`,
      (tx) => indexMessage(tx, roomKey, id, words),
    );
  }

  #isFiled(reader: Reader, word: string, id: Buffer, room: Buffer): boolean {
    const segments = this.#segmentsOf(reader);
    // A search goes down from the segment of the message to the first segment that has the word.
    for (let at = segmentOf(segments, timeOf(id)); at >= 0 && at < segments.length; at -= 1) {
      const list = listAt(reader, wordPrefix(segments[at] as number, word), id);
      if (list === undefined) continue;
      const place = lastNotAbove(list.entries, Math.floor(list.entries.length / entryBytes), id) * entryBytes;
      return (
        place >= 0 &&
        list.entries.subarray(place, place + idBytes).equals(id) &&
        list.entries.subarray(place + idBytes, place + entryBytes).equals(room)
      );
    }
    return false;
  }

  /** Read again if a new segment was added. */
  #segmentsOf(reader: Reader): readonly number[] {
    let newest: number | undefined;
    for (const { key } of reader.range(families.wordSegments, { reverse: true, limit: 1 }))
      newest = key.length === segmentBytes ? timeOf(key) : undefined;
    if (newest !== this.#segments.newest || newest === undefined) {
      const times = [...new Set([...readSegments(reader), ...this.#lost.keys()])].toSorted((a, b) => a - b);
      this.#segments = { newest, times };
    }
    return this.#segments.times;
  }

  *#inspectWaiting(reader: Reader, { key, value }: Entry): Generator<Damage> {
    if (key.length !== idBytes || value.length < idBytes) {
      yield surplusRow(families.waitingWords, key, 'wrong', 'The row does not name a message and its room.');
      return;
    }
    const { room, words } = new WaitingWords(key, value);
    const message = readMessage(reader, key, room);
    const right = wordsIn(readRoom(reader, room), message?.body ?? '');
    if (message === undefined)
      yield surplusRow(
        families.waitingWords,
        key,
        'dangling',
        'The words belong to a message that does not exist.',
      );
    else if (right === undefined)
      yield surplusRow(
        families.waitingWords,
        key,
        'wrong',
        'A message of a private room is in the search index.',
      );
    else if (words.join('\0') !== right.join('\0')) {
      yield wrongRow(
        families.waitingWords,
        key,
        `The stored words differ from the words of the message ${message.id}.`,
        (tx) => {
          tx.delete(families.waitingWords, key);
          indexMessage(tx, Buffer.from(room), key, right);
        },
      );
    }
  }

  *#inspectBatch(reader: Reader, { key, value }: Entry, store: Store): Generator<Damage> {
    const lists = key.length === batchBytes ? batchedLists(value) : undefined;
    if (lists === undefined) {
      yield {
        ...surplusRow(families.wordBatches, key, 'wrong', 'The row is not a list of lists.'),
        kind: 'unreadable',
      };
      return;
    }
    // The next segment begins after the newest indexed message.
    if (timeOf(key) > latestTsMs(this.#limits, store.nowMs())) {
      yield surplusRow(
        families.wordBatches,
        key,
        'wrong',
        'The row names messages whose time is in the future.',
      );
      return;
    }
    const atMs = roundedExpiryMs(timeOf(key) + this.#limits.messageRetentionSeconds * 1000);
    yield* this.#timers.inspect(
      reader,
      store,
      { atMs, kind: expiryTimers.words, reference: key },
      'The timer that deletes expired word lists is missing.',
      { orAny: true },
    );
  }

  *#inspectList(reader: Reader, { key, value }: Entry, store: Store): Generator<Damage> {
    const problem = this.#listProblem(reader, key, value, store.nowMs());
    if (problem !== undefined) {
      yield {
        ...surplusRow(families.wordLists, key, 'wrong', problem),
        repair: 'delete the row, and index its messages again',
      };
      return;
    }
    const newestId = value.subarray(value.length - entryBytes, value.length - entryBytes + idBytes);
    const seconds = listRetention(key, this.#limits);
    const segment = timeOf(key);
    if (
      !isExpired(timeOf(newestId), seconds, store.nowMs()) &&
      reader.get(families.wordSegments, segmentKey(segment)) === undefined &&
      (this.#lost.get(segment)?.equals(key) ?? true)
    ) {
      this.#lost.set(segment, key);
      yield missingRow(
        families.wordSegments,
        segmentKey(segment),
        'A segment of the search index is not listed, so searches skip it.',
        (tx) => tx.put(families.wordSegments, segmentKey(segment), nothing),
      );
    }
    if (this.#batches.has(reader, key)) return;
    yield missingRow(
      families.wordBatches,
      Buffer.concat([newestId, Buffer.alloc(idBytes)]),
      'The expiry timer of a word list is missing.',
      (tx) => {
        const newest = newestFiled(tx);
        const upTo = newest !== undefined && Buffer.compare(newest, newestId) > 0 ? newest : newestId;
        rememberLists(tx, Buffer.from(upTo), [key], roundedExpiryMs(timeOf(newestId) + seconds * 1000));
        this.#batches.add(key);
      },
    );
  }

  #listProblem(reader: Reader, key: Buffer, value: Buffer, nowMs: number): string | undefined {
    const end = key.length - idBytes - 1;
    if (end <= segmentBytes || key[end] !== 0) return 'The key is not the key of a word list.';
    if (
      value.length === 0 ||
      value.length % entryBytes !== 0 ||
      !value.subarray(0, idBytes).equals(key.subarray(end + 1))
    )
      return 'The key of the list does not name its oldest message.';
    if (timeOf(value.subarray(value.length - entryBytes)) > latestTsMs(this.#limits, nowMs))
      return 'The list contains messages whose time is in the future.';
    const word = key.toString('utf8', segmentBytes, end);
    for (let at = 0; at < value.length; at += entryBytes) {
      const id = value.subarray(at, at + idBytes);
      if (at > 0 && Buffer.compare(value.subarray(at - entryBytes, at - entryBytes + idBytes), id) >= 0)
        return 'The list is not in order.';
      const words = this.#wordsOfMessage(reader, id, value.subarray(at + idBytes, at + entryBytes));
      // A deleted message stays in its lists until they are removed.
      if (words !== 'gone' && !words.has(word))
        return `The list contains a message without the word "${word}".`;
    }
    return undefined;
  }

  #wordsOfMessage(reader: Reader, id: Buffer, room: Buffer): ReadonlySet<string> | 'gone' {
    const name = `${id.toString('latin1')}${room.toString('latin1')}`;
    const known = this.#wordsOf.get(name);
    if (known !== undefined) return known;
    const message = readMessage(reader, id, room);
    // A search must not find messages of private rooms.
    const words = message === undefined ? 'gone' : new Set(wordsIn(readRoom(reader, room), message.body));
    this.#wordsOf.set(name, words);
    return words;
  }

  /** A segment is removed a little later than its last list. A young segment has lists. */
  *#inspectSegment(reader: Reader, { key }: Entry, store: Store): Generator<Damage> {
    if (key.length !== segmentBytes) {
      yield surplusRow(families.wordSegments, key, 'wrong', 'The key is not a time.');
      return;
    }
    if (isExpired(timeOf(key), this.#limits.messageRetentionSeconds, store.nowMs())) return;
    for (const _ of reader.range(families.wordLists, { ...prefixRange(key), limit: 1 })) return;
    yield surplusRow(families.wordSegments, key, 'dangling', 'The segment has no lists.');
  }
}

/**
 * The lists that a batch will remove. Batches are read as the walk comes to their segment, not all at once.
 */
class ListsInBatches {
  #segment: number | undefined;
  #own = new Set<string>();
  /** Lists that a batch of another time made: of messages that came late. */
  #late: Set<string> | undefined;

  has(reader: Reader, list: Buffer): boolean {
    const name = list.toString('latin1');
    if (this.#segment !== timeOf(list)) this.#enter(reader, timeOf(list));
    if (this.#own.has(name)) return true;
    this.#late ??= lateLists(reader);
    return this.#late.has(name);
  }

  add(list: Buffer): void {
    this.#own.add(list.toString('latin1'));
  }

  #enter(reader: Reader, segment: number): void {
    this.#segment = segment;
    const next = readSegments(reader).find((startMs) => startMs > segment);
    const bounds = { gte: segmentKey(segment), ...(next !== undefined && { lt: segmentKey(next) }) };
    this.#own = new Set();
    for (const { value } of reader.range(families.wordBatches, bounds))
      for (const list of batchedLists(value) ?? []) this.add(list);
  }
}

function lateLists(reader: Reader): Set<string> {
  const segments = readSegments(reader);
  const late = new Set<string>();
  for (const { key, value } of reader.range(families.wordBatches, {})) {
    const own = segments[segmentOf(segments, timeOf(key))];
    for (const list of batchedLists(value) ?? []) if (timeOf(list) !== own) late.add(list.toString('latin1'));
  }
  return late;
}

/** The words of a message, or undefined if its room is not searched. */
function wordsIn(room: RoomRow | undefined, body: string): string[] | undefined {
  return room === undefined || room.isPrivate ? undefined : roomWords(room, body);
}

/** The message with this id, or undefined if another message, or none, is at its key. */
function readMessage(reader: Reader, id: Buffer, room: Buffer): Message | undefined {
  const key = timedKey(room, timeOf(id));
  const value = reader.get(families.messages, key);
  const message = value === undefined ? undefined : decodeMessage(key, value);
  const found = ulidBytes(message?.id ?? '');
  return found !== undefined && indexedId(found, timeOf(id)).equals(id) ? message : undefined;
}
