/**
 * AICQ's search in the data directory: the newest messages that have all words. It reads the one search index from its
 * newest segment down, and stops when it has enough. The index may name a few messages too many, so every message is
 * compared with the words again.
 */
import type { Limits } from '../../../../core/settings/limits.js';
import { nextTurn } from '../../../../core/waiting/yielding.js';
import type { EntryName } from '../../../../find/model.js';
import type { Catalog } from '../../../../find/segments/catalog.js';
import {
  NewestMatches,
  type WordLists,
  listsWith,
  placesIn,
  placesInBoth,
} from '../../../../find/segments/matches.js';
import { termsOfMessageWord } from '../../../../find/words/message-words.js';
import type { Message } from '../../../../messaging/model.js';
import type { SearchQuery, SearchResult } from '../../../../messaging/port.js';
import { hasWords } from '../../../../messaging/messages/tokenizer.js';
import type { MessageIndex, WaitingMessage } from '../../find/message-index.js';
import { type SegmentRow, messagesPartition } from '../../find/rows.js';
import type { OpenSegment } from '../../find/segments.js';
import { findMessage, isSearchedRoom } from './messages.js';
import type { RoomRows } from '../rooms/stored-rooms.js';

/** Other requests can run after this time. */
const turnMs = 2;

export interface MessageSearchOptions {
  readonly index: MessageIndex;
  readonly rooms: RoomRows;
  readonly limits: Limits;
}

export async function searchMessages(
  options: MessageSearchOptions,
  query: SearchQuery,
): Promise<SearchResult> {
  const messages: Message[] = [];
  let walk = new Walk(options, query, firstPlace(query), 0);
  for (;;) {
    const end = walk.run(messages);
    if (end === 'complete') return { messages, restBeforeMs: null };
    if (end === 'limit') return upTo(walk.newestLeftMs, messages);
    await nextTurn();
    // Segments that are not open yet may have been joined: their messages are in others now.
    if (walk.generation !== options.index.generation) walk = new Walk(options, query, walk.upper, walk.steps);
  }
}

/** The next page begins at a whole millisecond and finds the messages of that millisecond again. */
function upTo(leftMs: number, messages: readonly Message[]): SearchResult {
  return { messages: messages.filter(({ tsMs }) => tsMs > leftMs), restBeforeMs: leftMs + 1 };
}

/** A place in the order of messages: by time, then by id. */
interface Place {
  readonly timeMs: number;
  readonly id: string;
}

/** The search finds only messages before this place. */
function firstPlace({ beforeMs, last = null }: SearchQuery): Place {
  return { timeMs: beforeMs ?? Infinity, id: last?.messageId ?? '' };
}

function isBefore(timeMs: number, id: string, place: Place): boolean {
  return timeMs < place.timeMs || (timeMs === place.timeMs && id < place.id);
}

/** One view of the index: the segments from the newest down, and the messages that wait. */
class Walk {
  readonly generation: number;
  /** Read so far: word lists, and entries of rooms that the caller sees. */
  steps: number;
  upper: Place;
  readonly #options: MessageSearchOptions;
  readonly #query: SearchQuery;
  readonly #terms: readonly (readonly string[])[];
  readonly #oldestMs: number;
  readonly #waiting: readonly WaitingMessage[];
  #waitingLeft: number;
  readonly #segments: readonly SegmentRow[];
  #nextSegment = 0;
  readonly #open: NewestMatches[] = [];
  readonly #seen = new Map<string, boolean>();

  constructor(options: MessageSearchOptions, query: SearchQuery, upper: Place, steps: number) {
    const { index } = options;
    this.#options = options;
    this.#query = query;
    this.#terms = query.words.map(termsOfMessageWord);
    this.#oldestMs = query.afterMs + 1;
    this.#waiting = index.waiting();
    this.#waitingLeft = this.#waiting.length;
    this.#segments = index.whole();
    this.generation = index.generation;
    this.upper = upper;
    this.steps = steps;
  }

  /** Adds what it finds, until the search is complete or has read too much, or until other requests should run. */
  run(found: Message[]): 'complete' | 'limit' | 'turn' {
    const { limits } = this.#options;
    const untilMs = performance.now() + turnMs;
    for (let turns = 1; found.length < this.#query.limit; turns += 1) {
      const next = this.#next();
      if (next === 'end') return 'complete';
      const message = next === 'again' ? undefined : this.#read(next);
      if (message !== undefined) found.push(message);
      if (this.steps >= limits.searchStepsMax && this.#hasAdvanced()) return 'limit';
      if ((next === 'again' || turns % 16 === 0) && performance.now() >= untilMs) return 'turn';
    }
    return 'complete';
  }

  /** Whether the next page begins before this one. A search from page to page must come to its end. */
  #hasAdvanced(): boolean {
    const { beforeMs, last = null } = this.#query;
    return beforeMs === null || this.newestLeftMs + 1 < (last === null ? beforeMs : beforeMs + 1);
  }

  /** The time of the newest message that is not considered yet; -1 at the end. */
  get newestLeftMs(): number {
    return Math.max(
      this.#nextWaiting()?.timeMs ?? -1,
      this.#segments[this.#nextSegment]?.newestMs ?? -1,
      ...this.#open.map(({ times, newest }) => (newest === undefined ? -1 : (times[newest] ?? 0))),
    );
  }

  /** The newest match that is left, unless a segment that is not open yet may have a newer one. */
  #next(): EntryName | 'again' | 'end' {
    const waiting = this.#nextWaiting();
    let best: NewestMatches | undefined;
    let timeMs = waiting?.timeMs ?? -1;
    // Reading an id from a catalog takes longer than all of the rest, and few messages have the same time.
    const idOfBest = (): string =>
      best === undefined ? (waiting?.name.id ?? '') : best.catalog.id(best.newest as number);
    for (const matches of this.#open) {
      const { catalog, times, newest } = matches;
      if (newest === undefined) continue;
      const matchMs = times[newest] ?? 0;
      if (matchMs < timeMs || (matchMs === timeMs && catalog.id(newest) <= idOfBest())) continue;
      [timeMs, best] = [matchMs, matches];
    }
    const segment = this.#segments[this.#nextSegment];
    if (segment !== undefined && segment.newestMs >= Math.max(timeMs, this.#oldestMs)) {
      this.#nextSegment += 1;
      this.#openSegment(segment);
      return 'again';
    }
    if (timeMs < this.#oldestMs) return 'end';
    const name = best?.catalog.name(best.newest as number) ?? (waiting as WaitingMessage).name;
    this.upper = { timeMs, id: name.id };
    this.steps += 1;
    if (best === undefined) {
      this.#waitingLeft -= 1;
      return name;
    }
    best.take();
    // A message that was written again is in the index as it was before.
    return this.#options.index.isMarked(name) ? 'again' : name;
  }

  #nextWaiting(): WaitingMessage | undefined {
    for (; this.#waitingLeft > 0; this.#waitingLeft -= 1) {
      const message = this.#waiting[this.#waitingLeft - 1] as WaitingMessage;
      const { name, timeMs, terms } = message;
      if (
        isBefore(timeMs, name.id, this.upper) &&
        this.#terms.every((some) => some.some((term) => terms.has(term))) &&
        this.#isSeen(name.collection)
      )
        return message;
    }
    return undefined;
  }

  #openSegment(row: SegmentRow): void {
    const { segment } = row;
    const { index } = this.#options;
    const words: WordLists[] = [];
    for (const terms of this.#terms) {
      this.steps += 1;
      const blocks = index.segments.blocks(index.store, messagesPartition, segment, terms);
      const lists = listsWith(terms, blocks);
      if (lists.size === 0) return;
      words.push(lists);
    }
    // The rarest word decides how much is read.
    const [rarest, ...others] = words.toSorted((a, b) => a.size - b.size);
    if (rarest === undefined) return;
    const opened = index.segments.open(index.store, messagesPartition, row);
    let places = this.#seenPlaces(opened.catalog, placesIn(rarest));
    // Only messages that the caller may see count, so that the limit reveals nothing about others.
    this.steps += places.length;
    for (const lists of others) {
      if (places.length === 0) return;
      places = placesInBoth(places, placesIn(lists));
    }
    const { times } = opened.facts;
    const living = this.#livingPlaces(segment, opened, places);
    if (living.length > 0) this.#open.push(new NewestMatches(opened.catalog, times, living));
  }

  #seenPlaces({ ranges }: Catalog, places: readonly number[]): number[] {
    const seen: number[] = [];
    let at = 0;
    for (const { collection, from, to } of ranges) {
      while (at < places.length && (places[at] as number) < from) at += 1;
      if (at === places.length) break;
      if ((places[at] as number) >= to || !this.#isSeen(collection)) continue;
      for (; at < places.length && (places[at] as number) < to; at += 1) seen.push(places[at] as number);
    }
    return seen;
  }

  #livingPlaces(
    segment: number,
    { catalog, facts: { times } }: OpenSegment,
    places: readonly number[],
  ): number[] {
    const { index } = this.#options;
    const dead = index.segments.dead(index.store, messagesPartition, segment);
    return places.filter((place) => {
      const timeMs = times[place] ?? 0;
      if (timeMs < this.#oldestMs || timeMs > this.upper.timeMs || dead.has(place)) return false;
      return timeMs < this.upper.timeMs || catalog.id(place) < this.upper.id;
    });
  }

  #isSeen(roomId: string): boolean {
    let isSeen = this.#seen.get(roomId);
    if (isSeen === undefined) {
      const { roomId: wanted, owner } = this.#query;
      isSeen =
        (wanted === null || wanted === roomId) && isSearchedRoom(this.#options.rooms.get(roomId), owner);
      this.#seen.set(roomId, isSeen);
    }
    return isSeen;
  }

  #read({ collection, id }: EntryName): Message | undefined {
    const { rooms, limits, index } = this.#options;
    const room = rooms.get(collection);
    if (room === undefined) return undefined;
    const message = findMessage(index.store, limits, room, id, index.store.nowMs());
    return message !== undefined && hasWords(message.body, this.#query.words) ? message : undefined;
  }
}
