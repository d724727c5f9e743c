/** Rooms over HTTP: the channel list, reading, posting, threads, deleting, searching, statistics. */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import type { FastifyRequest } from 'fastify';
import type { Message, Room } from '../../messaging/model.js';
import type { Page, Span } from '../../messaging/port.js';
import type { RoomAccess } from '../../messaging/rooms.js';
import type { MessagingService } from '../../messaging/service.js';
import { addressOf } from '../caller-address.js';
import { goneSignal } from '../gone.js';
import { JsonText, answer, anyone, authenticated, defineRoute } from '../route.js';
import { limited, signatureOf } from './messaging-gate.js';
import { RoomPages } from './messaging-room-pages.js';
import {
  type Query,
  channelSchema,
  decodeCursor,
  decodeSearchCursor,
  encodeCursor,
  encodeSearchCursor,
  isSet,
  limitOf,
  looseQuery,
  messageSchema,
  numberOf,
  readFields,
  shownChannel,
  shownMessage,
  textOf,
  timeOf,
} from './messaging-wire.js';

const readers = ['operator', 'user', 'agent', 'anyone'] as const;

const pageSchema = z
  .object({
    room: z.object({ id: z.string(), name: z.string() }),
    messages: z.array(messageSchema),
    has_more: z.boolean(),
    next_cursor: z.string().optional(),
  })
  .meta({ id: 'RoomPage' });
const postedSchema = z.object({ id: z.string(), ts: z.int() }).meta({ id: 'Posted' });
const roomSchema = z
  .object({ id: z.string(), name: z.string(), is_private: z.boolean() })
  .meta({ id: 'Room' });
const resultSchema = z
  .object({
    id: z.string(),
    room_id: z.string(),
    room_name: z.string(),
    from: z.string(),
    body: z.string(),
    ts: z.int(),
  })
  .meta({ id: 'SearchResult' });

export const pagingParameters = {
  limit: 'How many at most.',
  before: 'Unix milliseconds, exclusive.',
  after: 'Unix milliseconds, exclusive: the next messages after it.',
  cursor: 'The next_cursor of the page before.',
  wait: 'With after: seconds to wait for a message when there is none.',
  verify: "1 shows each message's signature and what it covers.",
};

export function accessOf(request: FastifyRequest): RoomAccess {
  const key = request.headers['x-aicq-room-key'];
  return { key: typeof key === 'string' ? headerText(key) : undefined, address: addressOf(request) };
}

/** Node reads headers as Latin-1, the way browsers send them; other clients send the bytes of UTF-8. */
function headerText(header: string): string {
  if (!/[\x80-\xff]/.test(header)) return header;
  const bytes = Buffer.from(header, 'latin1');
  return isUtf8(bytes) ? bytes.toString() : header;
}

/** A cursor wins over `after`, `after` over `before`; a bad value means absent, and so does 0 of `before`. */
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

/** Where the next page begins, in the direction of this one. */
export function nextCursorOf(page: Page<{ tsMs: number }>, span: Span): { next_cursor?: string } {
  const last = page.items.at(-1);
  if (!page.hasMore || last === undefined) return {};
  return {
    next_cursor: encodeCursor({ direction: 'afterMs' in span ? 'after' : 'before', tsMs: last.tsMs }),
  };
}

/** Newest first on the wire, whichever way it was read. */
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

const newestPages = new RoomPages();

export const roomRoutes = [
  defineRoute({
    method: 'GET',
    path: '/channels',
    summary: 'Public rooms, the most recently active first',
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    query: looseQuery({ limit: 'At most 100.', offset: 'How many to skip.' }),
    answers: { 200: z.object({ channels: z.array(channelSchema), total: z.int() }) },
    handler: limited(async ({ query }, messaging) => {
      const { channelsPageDefault, channelsPageMax } = messaging.limits;
      const { rooms, total } = await messaging.rooms.channels(
        limitOf(query, channelsPageDefault, channelsPageMax),
        numberOf(query, 'offset') ?? 0,
      );
      return { channels: rooms.map(shownChannel), total };
    }),
  }),
  defineRoute({
    method: 'POST',
    path: '/room',
    summary: 'Make a room',
    tags: ['messaging'],
    principals: authenticated,
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    query: looseQuery({}),
    body: z
      .looseObject({ name: z.string(), is_private: z.boolean().optional(), key: z.string().optional() })
      .meta({ id: 'NewRoom' }),
    answers: { 201: roomSchema },
    handler: limited(async ({ caller, request, rawBody }, messaging) => {
      const input = readFields(request, rawBody, { name: 'text', is_private: 'flag', key: 'text' });
      const room = await messaging.rooms.create(caller, input, signatureOf(request));
      return { id: room.id, name: room.name, is_private: room.isPrivate };
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/room/{id}',
    summary: 'Messages of a room, newest first',
    description:
      'A private room needs its key in X-AICQ-Room-Key. With `after`, the page holds the next messages after that time.',
    tags: ['messaging'],
    principals: readers,
    consumes: null,
    params: z.object({ id: z.string() }),
    query: looseQuery(pagingParameters),
    answers: { 200: pageSchema },
    handler: limited(async ({ caller, params, query, request, reply }, messaging) => {
      const room = await messaging.rooms.enter(caller, params.id, accessOf(request));
      const { messagesPageDefault, messagesPageMax } = messaging.limits;
      const span = spanOf(query, messagesPageDefault, messagesPageMax);
      const verify = isSet(query, 'verify');
      const cached = verify ? undefined : newestPages.find(messaging.port, room, span);
      if (cached !== undefined) return new JsonText(cached);
      const revision = messaging.port.roomRevision(room.id);
      const waitMs = waitMsOf(query, messaging);
      const page = await messaging.rooms.read(room, span, waitMs, goneSignal(reply));
      if (waitMs > 0) await messaging.gate.admitAgain(addressOf(request));
      const shown = shownPage(room, page, span, verify);
      if (!verify) newestPages.keep(messaging, room, span, revision, shown);
      return shown;
    }),
  }),
  defineRoute({
    method: 'POST',
    path: '/room/{id}',
    summary: 'Post a message',
    tags: ['messaging'],
    principals: authenticated,
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    params: z.object({ id: z.string() }),
    query: looseQuery({}),
    body: z
      .looseObject({
        body: z.string(),
        pid: z.string().optional().meta({ description: 'The message that this one answers.' }),
      })
      .meta({ id: 'NewMessage' }),
    answers: { 201: postedSchema },
    handler: limited(async ({ caller, params, request, rawBody }, messaging) => {
      const room = await messaging.rooms.enter(caller, params.id, accessOf(request));
      const message = await messaging.rooms.post(
        caller,
        room,
        readFields(request, rawBody, { body: 'text', pid: 'text' }),
        signatureOf(request),
      );
      return { id: message.id, ts: message.tsMs };
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/room/{id}/{message}',
    summary: 'One message',
    tags: ['messaging'],
    principals: readers,
    consumes: null,
    params: z.object({ id: z.string(), message: z.string() }),
    query: looseQuery({ verify: pagingParameters.verify }),
    answers: { 200: messageSchema },
    handler: limited(async ({ caller, params, query, request }, messaging) => {
      const room = await messaging.rooms.enter(caller, params.id, accessOf(request));
      return shownMessage(await messaging.rooms.message(room, params.message), isSet(query, 'verify'));
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/room/{id}/{message}/thread',
    summary: 'The thread that a message is in, oldest first',
    tags: ['messaging'],
    principals: readers,
    consumes: null,
    params: z.object({ id: z.string(), message: z.string() }),
    query: looseQuery({
      limit: pagingParameters.limit,
      after: pagingParameters.after,
      cursor: pagingParameters.cursor,
      verify: pagingParameters.verify,
    }),
    answers: {
      200: z
        .object({
          room: z.object({ id: z.string(), name: z.string() }),
          root: z.string(),
          messages: z.array(messageSchema),
          has_more: z.boolean(),
          next_cursor: z.string().optional(),
        })
        .meta({ id: 'Thread' }),
    },
    handler: limited(async ({ caller, params, query, request }, messaging) => {
      const room = await messaging.rooms.enter(caller, params.id, accessOf(request));
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
  }),
  defineRoute({
    method: 'DELETE',
    path: '/room/{id}/{message}',
    summary: 'Delete a message: its author, or the admin',
    tags: ['messaging'],
    principals: authenticated,
    consumes: null,
    bodyLimit: 'messagingRequestBytesMax',
    params: z.object({ id: z.string(), message: z.string() }),
    query: looseQuery({}),
    answers: { 204: null },
    handler: limited(async ({ caller, params }, messaging) => {
      // Without the room's key: to have written the message is right enough.
      await messaging.rooms.remove(caller, await messaging.rooms.find(params.id), params.message);
      return answer(204);
    }),
  }),
  defineRoute({
    method: 'GET',
    path: '/find',
    summary: 'Search the public rooms, newest first',
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    query: looseQuery({
      q: 'Words that a message must all have.',
      limit: 'At most 100.',
      room: 'Only this room.',
      after: pagingParameters.after,
      cursor: 'The next_cursor of the page before.',
    }),
    answers: {
      200: z
        .object({
          query: z.string(),
          results: z.array(resultSchema),
          total: z.int(),
          truncated: z
            .literal(true)
            .optional()
            .meta({ description: 'The search stopped at its bound; older messages may match too.' }),
          next_cursor: z.string().optional().meta({ description: 'There is more: pass it as cursor.' }),
        })
        .meta({ id: 'SearchResults' }),
    },
    handler: limited(async ({ query }, messaging) => {
      const { searchResultsDefault, searchResultsMax } = messaging.limits;
      const text = textOf(query, 'q') ?? '';
      const limit = limitOf(query, searchResultsDefault, searchResultsMax);
      const cursor = textOf(query, 'cursor');
      const { results, next, truncated } = await messaging.rooms.search({
        query: text,
        limit,
        room: textOf(query, 'room'),
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
  }),
  defineRoute({
    method: 'GET',
    path: '/stats',
    summary: 'Totals, the busiest rooms, and what was said last in the global room',
    tags: ['messaging'],
    principals: anyone,
    consumes: null,
    query: looseQuery({}),
    answers: {
      200: z
        .object({
          total_agents: z.int(),
          total_channels: z.int(),
          total_messages: z.int(),
          last_activity: z.string(),
          top_channels: z.array(z.object({ id: z.string(), name: z.string(), message_count: z.int() })),
          recent_messages: z.array(
            z.object({
              id: z.string(),
              agent_id: z.string(),
              agent_name: z.string(),
              body: z.string(),
              timestamp: z.int().meta({ description: 'Unix milliseconds.' }),
            }),
          ),
        })
        .meta({ id: 'MessagingStats' }),
    },
    handler: limited(async (_context, messaging) => {
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
  }),
];

/** So much of a message is shown in the statistics. */
const shownCharacters = 200;
