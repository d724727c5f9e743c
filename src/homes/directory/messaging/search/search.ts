/**
 * Search in the data directory: the lists of all words are read together, from the newest message to the
 * oldest.
 */
import type { Store } from '../../kernel/store.js';
import type { Limits } from '../../../../core/settings/limits.js';
import type { Message } from '../../../../messaging/model.js';
import type { SearchQuery, SearchResult } from '../../../../messaging/port.js';
import { ulidBytes } from '../../../../messaging/messages/ulid.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { oldestLivingMs } from '../messages.js';
import { decodeMessage, families, timedKey } from '../rows.js';
import { nextTurn } from '../../../../core/waiting/yielding.js';
import type { WaitingIndex } from './waiting-words.js';
import {
  type WaitingWords,
  entryBytes,
  idBytes,
  indexedId,
  lastNotAbove,
  listAt,
  segmentOf,
  timeOf,
  wordPrefix,
} from './words.js';

/** Other requests can run after this many steps. */
const stepsPerTurn = 1_000;

export async function searchMessages(
  store: Store,
  waiting: WaitingIndex,
  limits: Limits,
  query: SearchQuery,
): Promise<SearchResult> {
  const oldestMs = Math.max(oldestLivingMs(store.nowMs(), query.retentionSeconds), query.afterMs + 1);
  const messages: Message[] = [];
  let upper = firstId(query);
  for (let steps = 0; steps < limits.searchStepsMax; steps += stepsPerTurn) {
    const end = new Walk(store, waiting, query, oldestMs, upper).run(query.limit - messages.length, messages);
    if (end === undefined) return { messages, restBeforeMs: null };
    upper = end;
    await nextTurn();
  }
  // The next page begins at a whole millisecond and finds the messages of that millisecond again.
  const reachedMs = timeOf(upper);
  return { messages: messages.filter(({ tsMs }) => tsMs > reachedMs), restBeforeMs: reachedMs + 1 };
}

/** The highest id that the search may find. */
function firstId({ beforeMs, last = null }: SearchQuery): Buffer {
  if (beforeMs === null) return Buffer.alloc(idBytes, 0xff);
  const shown = last === null ? undefined : ulidBytes(last.messageId);
  return shown === undefined ? highestIdOf(beforeMs - 1) : below(indexedId(shown, beforeMs));
}

/** The steps left in this turn, for all words of a search together. */
interface Budget {
  stepsLeft: number;
}

/** One turn of a search over one view of the store. */
class Walk {
  readonly #store: Store;
  readonly #budget: Budget = { stepsLeft: stepsPerTurn };
  readonly #lists: readonly WordWalk[];
  readonly #room: Buffer | undefined;
  readonly #oldestMs: number;
  #upper: Buffer;

  constructor(store: Store, waiting: WaitingIndex, query: SearchQuery, oldestMs: number, upper: Buffer) {
    this.#store = store;
    this.#lists = query.words.map(
      (word) =>
        new WordWalk({
          store,
          word,
          waiting: waiting.messagesOf(word),
          segments: waiting.segments,
          oldestMs,
          budget: this.#budget,
        }),
    );
    this.#room = query.roomId === null ? undefined : uuidBytes(query.roomId);
    this.#oldestMs = oldestMs;
    this.#upper = upper;
  }

  /** Adds the messages that it finds. Returns where to continue, or undefined at the end. */
  run(wanted: number, found: Message[]): Buffer | undefined {
    let left = wanted;
    while (left > 0) {
      if (this.#budget.stepsLeft <= 0) return this.#upper;
      if (this.#room !== undefined && !this.#sinkToRoom(this.#room)) return undefined;
      const agreed = this.#agree();
      if (agreed === 'end') return undefined;
      if (agreed === 'lower') continue;
      const message = this.#read(agreed);
      if (message !== undefined) {
        found.push(message);
        left -= 1;
      }
      this.#upper = below(agreed.id);
    }
    return undefined;
  }

  /**
   * Moves every list to its highest message not above `#upper`. Either all lists have the same message, or
   * `#upper` is lowered.
   */
  #agree(): Place | 'lower' | 'end' {
    let agreed: Place | undefined;
    for (const list of this.#lists) {
      const place = list.sinkTo(this.#upper);
      if (place === undefined || timeOf(place.id) < this.#oldestMs) return 'end';
      if (place.room === undefined) {
        this.#upper = place.id;
        return 'lower';
      }
      if (agreed !== undefined && Buffer.compare(place.id, this.#upper) < 0) {
        this.#upper = place.id;
        return 'lower';
      }
      // If a list is below the first one, all lists start again from its position.
      this.#upper = place.id;
      agreed = place;
    }
    return agreed ?? 'end';
  }

  /** A room is a sorted list too: the time of its next message limits the search. */
  #sinkToRoom(room: Buffer): boolean {
    const upperMs = timeOf(this.#upper);
    const bounds = {
      gte: timedKey(room, this.#oldestMs),
      lte: timedKey(room, upperMs),
      reverse: true,
      limit: 1,
    };
    for (const { key } of this.#store.range(families.messages, bounds)) {
      const tsMs = key.readUIntBE(16, 6);
      if (tsMs < upperMs) this.#upper = highestIdOf(tsMs);
      return true;
    }
    return false;
  }

  #read({ id, room }: Place): Message | undefined {
    if (this.#room !== undefined && !this.#room.equals(room)) return undefined;
    const messageKey = timedKey(room, timeOf(id));
    const value = this.#store.get(families.messages, messageKey);
    const message = value === undefined ? undefined : decodeMessage(messageKey, value);
    const found = ulidBytes(message?.id ?? '');
    // A deleted message and another one may have the same time.
    return found !== undefined && indexedId(found, timeOf(id)).equals(id) ? message : undefined;
  }
}

/** A message in a list. */
interface Place {
  id: Buffer;
  room: Buffer;
}

/** The turn ended before the next message was found. The next message is not above this id. */
interface Below {
  id: Buffer;
  room?: undefined;
}

interface WordWalkOptions {
  store: Store;
  word: string;
  waiting: readonly WaitingWords[];
  segments: readonly number[];
  oldestMs: number;
  budget: Budget;
}

/** The messages that have a word, newest first: waiting messages and indexed ones. */
class WordWalk {
  readonly #options: WordWalkOptions;
  #waitingLeft: number;
  /** The current list; undefined before the first and after the last. */
  #entries: Buffer | undefined;
  #entriesLeft = 0;
  #ended = false;

  constructor(options: WordWalkOptions) {
    this.#options = options;
    this.#waitingLeft = options.waiting.length;
  }

  /** The newest message not above `id`. Each call must use a lower id than the one before. */
  sinkTo(id: Buffer): Place | Below | undefined {
    const { waiting: all, budget } = this.#options;
    budget.stepsLeft -= 1;
    const filed = this.#filedAt(id);
    while (this.#waitingLeft > 0 && Buffer.compare((all[this.#waitingLeft - 1] as WaitingWords).id, id) > 0)
      this.#waitingLeft -= 1;
    const waiting = all[this.#waitingLeft - 1];
    if (waiting === undefined || filed === undefined) return waiting ?? filed;
    return Buffer.compare(filed.id, waiting.id) > 0 ? filed : waiting;
  }

  #filedAt(id: Buffer): Place | Below | undefined {
    if (this.#ended) return undefined;
    if (this.#entries === undefined || this.#entries.compare(id, 0, idBytes, 0, idBytes) > 0) {
      const found = this.#listAt(id);
      this.#ended = found === undefined;
      this.#entries = Buffer.isBuffer(found) ? found : undefined;
      if (!Buffer.isBuffer(found)) return found;
      this.#entriesLeft = found.length / entryBytes;
    }
    const entries = this.#entries as Buffer;
    this.#entriesLeft = lastNotAbove(entries, this.#entriesLeft, id) + 1;
    const at = (this.#entriesLeft - 1) * entryBytes;
    return { id: entries.subarray(at, at + idBytes), room: entries.subarray(at + idBytes, at + entryBytes) };
  }

  /**
   * The list with the newest message not above `id`, in its segment or the next one down that has the word. A
   * rare word is in few of very many segments, so a turn can also end between segments.
   */
  #listAt(id: Buffer): Buffer | Below | undefined {
    const { store, word, segments, oldestMs, budget } = this.#options;
    const first = segmentOf(segments, timeOf(id));
    for (let at = first; at >= 0 && at < segments.length; at -= 1) {
      // A segment ends where the next one begins.
      const endMs = segments[at + 1] ?? Infinity;
      if (endMs <= oldestMs) return undefined;
      if (budget.stepsLeft <= 0) return { id: at === first ? id : highestIdOf(endMs - 1) };
      budget.stepsLeft -= 1;
      const list = listAt(store, wordPrefix(segments[at] as number, word), id);
      if (list !== undefined) return list.entries;
    }
    return undefined;
  }
}

/** The highest id of a time. */
function highestIdOf(tsMs: number): Buffer {
  const id = Buffer.alloc(idBytes, 0xff);
  id.writeUIntBE(Math.max(0, tsMs), 0, 6);
  return id;
}

/** The id just below another. */
function below(id: Buffer): Buffer {
  const lower = Buffer.from(id);
  for (let at = idBytes - 1; at >= 0; at -= 1) {
    const byte = lower[at] as number;
    lower[at] = (byte + 255) % 256;
    if (byte > 0) return lower;
  }
  return lower;
}
