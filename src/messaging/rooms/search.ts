/**
 * Search over rooms: public rooms, and those of one user.
 */
import type { Limits } from '../../core/settings/limits.js';
import { type Message, type Room, isExpired } from '../model.js';
import type { MessagePlace, MessagingPort } from '../port.js';
import { queryWords } from '../messages/tokenizer.js';
import { refuse } from '../refusals.js';
import { retentionOf } from './visibility.js';

export interface SearchRequest {
  query: string;
  limit: number;
  /** Only this room. */
  roomId: string | null;
  /** Also search the rooms of this user. */
  owner: string | null;
  afterMs: number;
  /** Null begins with the newest message. */
  from: SearchPosition | null;
}

/** Where the next page of a search begins: before a time, or after the last message shown. */
export interface SearchPosition {
  beforeMs: number;
  last: MessagePlace | null;
}

export interface SearchPage {
  results: { message: Message; room: Room }[];
  /** Null at the end. */
  next: SearchPosition | null;
  /** The search stopped at its limit of steps. */
  truncated: boolean;
}

/** A query without a usable word finds nothing. */
export async function searchRooms(
  port: MessagingPort,
  limits: Limits,
  { query, limit, roomId, owner, afterMs, from }: SearchRequest,
): Promise<SearchPage> {
  if (query === '') throw refuse('queryMissing');
  if ([...query].length > limits.searchQueryCharactersMax) throw refuse('queryLong');
  const words = queryWords(query);
  if (words.length === 0) return { results: [], next: null, truncated: false };
  const { messages: found, restBeforeMs } = await port.search({
    words,
    owner,
    roomId,
    afterMs,
    beforeMs: from?.beforeMs ?? null,
    last: from?.last ?? null,
    // One more than is shown, to know whether there are more.
    limit: limit + 1,
  });
  const messages = found.slice(0, limit);
  const results = await withRooms(port, limits, messages, owner);
  const last = messages.at(-1);
  if (found.length > limit && last !== undefined) {
    const { roomId: lastRoom, id: messageId, tsMs } = last;
    return { results, next: { beforeMs: tsMs, last: { roomId: lastRoom, messageId } }, truncated: false };
  }
  const next = restBeforeMs === null ? null : { beforeMs: restBeforeMs, last: null };
  return { results, next, truncated: next !== null };
}

/** Without messages whose room has a key, belongs to others by now, or keeps messages for a shorter time. */
async function withRooms(
  port: MessagingPort,
  limits: Limits,
  messages: readonly Message[],
  owner: string | null,
): Promise<SearchPage['results']> {
  const rooms = await port.rooms([...new Set(messages.map(({ roomId }) => roomId))]);
  const nowMs = port.nowMs();
  return messages.flatMap((message): { message: Message; room: Room }[] => {
    const room = rooms.get(message.roomId);
    if (room === undefined || room.isPrivate || (room.owner !== null && room.owner !== owner)) return [];
    return isExpired(message.tsMs, retentionOf(room, limits), nowMs) ? [] : [{ message, room }];
  });
}
