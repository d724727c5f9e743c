/** Search in the embedded store: the lists of all words are walked together, from the newest message down. */
import type { Entry } from '../../kernel/engine.js';
import type { Store } from '../../kernel/store.js';
import type { Limits } from '../../limits.js';
import type { Message } from '../../messaging/model.js';
import type { SearchQuery, SearchResult } from '../../messaging/port.js';
import { uuidBytes } from '../../messaging/uuid.js';
import { oldestLivingMs } from './messaging-rooms.js';
import { decodeMessage, families, timedKey, wordPrefix } from './messaging-rows.js';

const idBytes = 16;
/** Other requests get a turn after so many steps. */
const stepsPerTurn = 2_000;
/** So many entries are walked over before the list is entered anew further down. */
const linearStepsMax = 8;

export async function searchMessages(store: Store, limits: Limits, query: SearchQuery): Promise<SearchResult> {
  const oldestMs = Math.max(oldestLivingMs(store.nowMs(), limits.messageRetentionSeconds), query.afterMs + 1);
  const messages: Message[] = [];
  let upper: Buffer = Buffer.alloc(idBytes, 0xff);
  for (let steps = 0; steps < limits.searchStepsMax; steps += stepsPerTurn) {
    const turn = new Walk(store, query, oldestMs, upper);
    const end = turn.run(query.limit - messages.length, messages);
    turn.close();
    if (end === undefined) return { messages, complete: true };
    upper = end;
    await new Promise((resolve) => setImmediate(resolve));
  }
  return { messages, complete: false };
}

/** One turn of a search over one view of the store. */
class Walk {
  readonly #store: Store;
  readonly #lists: readonly WordList[];
  readonly #room: Buffer | undefined;
  readonly #oldestMs: number;
  #upper: Buffer;

  constructor(store: Store, query: SearchQuery, oldestMs: number, upper: Buffer) {
    this.#store = store;
    this.#lists = query.words.map((word) => new WordList(store, word, oldestMs));
    this.#room = query.roomId === null ? undefined : uuidBytes(query.roomId);
    this.#oldestMs = oldestMs;
    this.#upper = upper;
  }

  /** Adds what it finds; answers where to go on, or undefined at the end. */
  run(wanted: number, found: Message[]): Buffer | undefined {
    let left = wanted;
    let steps = 0;
    while (left > 0) {
      if (steps >= stepsPerTurn) return this.#upper;
      const agreed = this.#agree();
      steps += agreed.steps;
      if (agreed.end) return undefined;
      if (agreed.entry === undefined) continue;
      const message = this.#read(agreed.entry);
      if (message !== undefined) {
        found.push(message);
        left -= 1;
      }
      this.#upper = below(idOf(agreed.entry));
    }
    return undefined;
  }

  close(): void {
    for (const list of this.#lists) list.close();
  }

  /** Moves every list to the highest place not above `#upper`; they agree, or `#upper` sinks. */
  #agree(): { steps: number; end: boolean; entry?: Entry } {
    let steps = 0;
    let entry: Entry | undefined;
    if (this.#room !== undefined && !this.#sinkToRoom(this.#room)) return { steps: 1, end: true };
    for (const list of this.#lists) {
      steps += list.sinkTo(this.#upper);
      if (list.current === undefined) return { steps, end: true };
      const id = idOf(list.current);
      if (Buffer.compare(id, this.#upper) < 0) {
        this.#upper = id;
        // The first list sets the pace; another one below it sends all back to the new place.
        if (list !== this.#lists[0]) return { steps, end: false };
      }
      entry = list.current;
    }
    return entry === undefined ? { steps, end: true } : { steps, end: false, entry };
  }

  /** A room is a sorted list too: the time of its next message bounds the search. */
  #sinkToRoom(room: Buffer): boolean {
    const upperMs = this.#upper.readUIntBE(0, 6);
    const bounds = { gte: timedKey(room, this.#oldestMs), lte: timedKey(room, upperMs), reverse: true, limit: 1 };
    for (const { key } of this.#store.range(families.messages, bounds)) {
      const tsMs = key.readUIntBE(16, 6);
      if (tsMs < upperMs) this.#upper = timedKeyEnd(tsMs);
      return true;
    }
    return false;
  }

  #read({ key, value: room }: Entry): Message | undefined {
    if (this.#room !== undefined && !this.#room.equals(room)) return undefined;
    const id = key.subarray(key.length - idBytes);
    const messageKey = timedKey(room, id.readUIntBE(0, 6));
    const value = this.#store.get(families.messages, messageKey);
    return value === undefined ? undefined : decodeMessage(messageKey, value);
  }
}

/** The messages that have a word, from the newest. */
class WordList {
  readonly #store: Store;
  readonly #prefix: Buffer;
  readonly #lowest: Buffer;
  #iterator: Iterator<Entry> | undefined;
  current: Entry | undefined;

  constructor(store: Store, word: string, oldestMs: number) {
    this.#store = store;
    this.#prefix = wordPrefix(word);
    this.#lowest = timedKey(this.#prefix, oldestMs);
  }

  /** Moves to the highest entry that is not above `id`; answers how many steps that took. */
  sinkTo(id: Buffer): number {
    let steps = 0;
    if (this.#iterator !== undefined) {
      for (; steps < linearStepsMax; steps += 1) {
        if (this.current === undefined || Buffer.compare(idOf(this.current), id) <= 0) return steps;
        this.#advance();
      }
    }
    this.close();
    const highest = Buffer.concat([this.#prefix, id]);
    const range = Buffer.compare(highest, this.#lowest) < 0 ? [] : this.#store.range(families.words, { gte: this.#lowest, lte: highest, reverse: true });
    this.#iterator = range[Symbol.iterator]();
    this.#advance();
    return steps + 1;
  }

  /** An engine holds its view of the data for as long as a walk is open. */
  close(): void {
    this.#iterator?.return?.();
    this.#iterator = undefined;
  }

  #advance(): void {
    const next = this.#iterator?.next();
    this.current = next === undefined || next.done === true ? undefined : next.value;
  }
}

function idOf({ key }: Entry): Buffer {
  return key.subarray(key.length - idBytes);
}

/** The highest id of a time. */
function timedKeyEnd(tsMs: number): Buffer {
  const id = Buffer.alloc(idBytes, 0xff);
  id.writeUIntBE(tsMs, 0, 6);
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

