/** The handlers of rooms. */
import type { z } from 'zod';
import { aicqRooms } from '../../../api/messaging/operations.js';
import { aicqRoomSchemas, type pageSchema } from '../../../api/messaging/schemas.js';
import type { Message, Room } from '../../../messaging/model.js';
import type { Page, Span } from '../../../messaging/port.js';
import type { MessagingService } from '../../../messaging/service.js';
import { disconnectSignal } from '../../request/disconnection.js';
import { answer, routesOf } from '../../route.js';
import type { Caller } from '../../../core/caller.js';
import type { CheckedSignature } from '../../../messaging/identities/proof.js';
import { canonicalRoomId } from '../../../messaging/identities/uuid.js';
import { refuse } from '../../../messaging/refusals.js';
import { retentionOf, userOf } from '../../../messaging/rooms/visibility.js';
import { accessOf, admitAgain, byId, limited, signatureOf } from './gate.js';
import { NewestPages } from './newest-pages.js';
import { streamRoom, streamRooms } from './streams.js';
import {
  type Query,
  decodeCursor,
  decodeSearchCursor,
  encodeCursor,
  encodeSearchCursor,
  isSet,
  limitOf,
  numberOf,
  readFields,
  shownChannel,
  shownMessage,
  textOf,
  timeOf,
} from './wire.js';

/**
 * A cursor overrides `after`, and `after` overrides `before`. An invalid value is ignored, and so is a
 * `before` of 0.
 */
export function spanOf(query: Query, fallback: number, max: number): Span {
  const limit = limitOf(query, fallback, max);
  const cursor = textOf(query, 'cursor');
  if (cursor !== undefined) {
    const { direction, tsMs } = decodeCursor(cursor);
    return direction === 'after' ? { afterMs: tsMs, limit } : { beforeMs: tsMs, limit };
  }
  const afterMs = timeOf(query, 'after');
  return afterMs === undefined ? { beforeMs: numberOf(query, 'before') ?? null, limit } : { afterMs, limit };
}

/** The start of the next page, in the direction of this one. */
export function nextCursorOf(page: Page<{ tsMs: number }>, span: Span): { next_cursor?: string } {
  const last = page.items.at(-1);
  if (!page.hasMore || last === undefined) return {};
  return {
    next_cursor: encodeCursor({ direction: 'afterMs' in span ? 'after' : 'before', tsMs: last.tsMs }),
  };
}

/** Newest first in the response, for both directions. */
export function newestFirst<T extends { tsMs: number }>(page: Page<T>, span: Span): T[] {
  return 'afterMs' in span ? page.items.toReversed() : page.items;
}

export function waitMsOf(query: Query, messaging: MessagingService): number {
  return Math.min(numberOf(query, 'wait') ?? 0, messaging.limits.longPollSecondsMax) * 1000;
}

function shownPage(
  room: Room,
  page: Page<Message>,
  span: Span,
  verify: boolean,
): z.output<typeof pageSchema> {
  const messages = newestFirst(page, span).map((message) => shownMessage(message, verify));
  return {
    room: { id: room.id, name: room.name },
    messages,
    has_more: page.hasMore,
    ...nextCursorOf(page, span),
  };
}

/** A room belongs to the user of a token or of a linked agent, except if AICQ's own signature made it. */
function ownerOf(caller: Caller | null, signature: CheckedSignature | null): string | null {
  return signature?.scheme === 'aicq' ? null : userOf(caller);
}

function searchedRoom(given: string | undefined): string | null {
  const id = given === undefined ? null : canonicalRoomId(given);
  if (id === undefined) throw refuse('roomId');
  return id;
}

export const newestPages = new NewestPages();

export const roomRoutes = routesOf('aicqRooms', aicqRooms, aicqRoomSchemas, {
  list: limited(async ({ query }, messaging) => {
    const { channelsPageDefault, channelsPageMax } = messaging.limits;
    const { rooms, total } = await messaging.rooms.channels(
      limitOf(query, channelsPageDefault, channelsPageMax),
      numberOf(query, 'offset') ?? 0,
    );
    return { channels: rooms.map(shownChannel), total };
  }),
  create: limited(async ({ caller, request, rawBody, idempotency }, messaging) => {
    const input = readFields(request, rawBody, { name: 'text', is_private: 'flag', key: 'text' });
    const signature = signatureOf(request);
    const owner = ownerOf(caller, signature);
    const room = await messaging.rooms.create(caller, { ...input, owner }, signature, idempotency);
    return { id: room.id, name: room.name, is_private: room.isPrivate };
  }),
  read: limited(async ({ caller, params, query, request, reply }, messaging) => {
    const id = canonicalRoomId(params.room);
    // Before the room is read: while its key is checked, its name or the retention of its messages can
    // change.
    const revision = id === undefined ? undefined : messaging.port.revision({ kind: 'room', id });
    const room = await messaging.rooms.enter(caller, byId(params.room), accessOf(request));
    const { messagesPageDefault, messagesPageMax } = messaging.limits;
    const span = spanOf(query, messagesPageDefault, messagesPageMax);
    const verify = isSet(query, 'verify');
    const waitMs = waitMsOf(query, messaging);
    const readPage = async () => {
      const page = await messaging.rooms.read(room, span, waitMs, disconnectSignal(reply));
      if (waitMs > 0) await admitAgain(request);
      return shownPage(room, page, span, verify);
    };
    if (verify) return readPage();
    const retentionSeconds = retentionOf(room, messaging.limits);
    const topic = { kind: 'room', id: room.id } as const;
    return newestPages.page(messaging.port, { topic, span, retentionSeconds, revision }, readPage);
  }),
  post: limited(async ({ caller, params, request, rawBody, idempotency }, messaging) => {
    const message = await messaging.rooms.post(
      caller,
      { ...byId(params.room), ahead: request.roomAhead, ...accessOf(request) },
      () => readFields(request, rawBody, { body: 'text', pid: 'text' }),
      signatureOf(request),
      idempotency,
    );
    return { id: message.id, ts: message.tsMs };
  }),
  getMessage: limited(async ({ caller, params, query, request }, messaging) => {
    const room = await messaging.rooms.enter(caller, byId(params.room), accessOf(request));
    return shownMessage(await messaging.rooms.message(room, params.message), isSet(query, 'verify'));
  }),
  thread: limited(async ({ caller, params, query, request }, messaging) => {
    const room = await messaging.rooms.enter(caller, byId(params.room), accessOf(request));
    const { messagesPageDefault, threadMessagesMax } = messaging.limits;
    const given = spanOf(query, messagesPageDefault, threadMessagesMax);
    const span = 'afterMs' in given ? given : { afterMs: 0, limit: given.limit };
    const { rootId, page } = await messaging.rooms.thread(room, params.message, span.afterMs, span.limit);
    const messages = page.items.map((message) => shownMessage(message, isSet(query, 'verify')));
    return {
      room: { id: room.id, name: room.name },
      root: rootId,
      messages,
      has_more: page.hasMore,
      ...nextCursorOf(page, span),
    };
  }),
  deleteMessage: limited(async ({ caller, params }, messaging) => {
    await messaging.rooms.remove(caller, byId(params.room), params.message);
    return answer(204);
  }),
  find: limited(async ({ query }, messaging) => {
    const { searchResultsDefault, searchResultsMax } = messaging.limits;
    const text = textOf(query, 'q') ?? '';
    const limit = limitOf(query, searchResultsDefault, searchResultsMax);
    const cursor = textOf(query, 'cursor');
    const { results, next, truncated } = await messaging.rooms.search({
      query: text,
      limit,
      roomId: searchedRoom(textOf(query, 'room')),
      owner: null,
      afterMs: numberOf(query, 'after') ?? 0,
      from: cursor === undefined ? null : decodeSearchCursor(cursor),
    });
    const shown = results.map(({ message, room }) => ({
      id: message.id,
      room_id: room.id,
      room_name: room.name,
      from: message.from,
      body: message.body,
      ts: message.tsMs,
    }));
    return {
      query: text,
      results: shown,
      total: shown.length,
      ...(truncated && { truncated: true as const }),
      ...(next !== null && { next_cursor: encodeSearchCursor(next) }),
    };
  }),
  stats: limited(async (_context, messaging) => {
    const { totals, lastActivity, recent } = await messaging.stats();
    return {
      total_agents: totals.agents,
      total_channels: totals.publicRooms,
      total_messages: totals.messages,
      last_activity: lastActivity,
      top_channels: totals.top.map(({ id, name, messageCount }) => ({
        id,
        name,
        message_count: messageCount,
      })),
      recent_messages: recent.map(({ message, authorName }) => ({
        id: message.id,
        agent_id: message.from,
        agent_name: authorName,
        body: [...message.body].slice(0, shownCharacters).join(''),
        timestamp: message.tsMs,
      })),
    };
  }),
  stream: streamRoom,
  streamMany: streamRooms,
});

/** Characters of a message that are shown in the statistics. */
const shownCharacters = 200;
