/** The handlers of the messages of rooms under /v1. */
import { messages } from '../../../api/rooms/operations.js';
import { messageSchemas } from '../../../api/rooms/schemas.js';
import type { Caller } from '../../../core/caller.js';
import { isoTime } from '../../../core/text/iso-time.js';
import type { Message, Room } from '../../../messaging/model.js';
import { canSeeRoom, userOf } from '../../../messaging/rooms/visibility.js';
import { disconnectSignal } from '../../request/disconnection.js';
import { answer, routesOf } from '../../route.js';
import { accessOf, admitAgain, signatureOf } from '../messaging/gate.js';
import { admit, admitRoom, wantsStream } from './admission.js';
import { shownRoomMessage } from './shown.js';
import { nextCursor, spanOf } from './span.js';
import { positionOf, streamTopic } from './stream.js';

export const messageRoutes = routesOf('messages', messages, messageSchemas, {
  list: async (context) => {
    const { caller, params, query, headers, request, reply, streams } = context;
    const messaging = await admit(context);
    const room = await messaging.rooms.enter(caller, byName(params.room), accessOf(request));
    const to = { user: readerOf(room, caller), verify: query.verify === true };
    if (wantsStream(request))
      return streamTopic(context, streams, messaging, {
        topic: { kind: 'room', id: room.id, room },
        fromMs: positionOf(headers['last-event-id'], query.after),
        // The hub returns room messages for a room.
        show: (message, authors) => shownRoomMessage(message as Message, authors, to),
        isHidden: async () => {
          const now = await messaging.port.room(room.id);
          return now === undefined || !canSeeRoom(caller, now);
        },
      });
    const { messagesPageDefault, messagesPageMax, threadMessagesMax, longPollSecondsMax } = messaging.limits;
    const inThread = query.thread !== undefined;
    const given = spanOf(query, messagesPageDefault, inThread ? threadMessagesMax : messagesPageMax);
    const span = inThread && !('afterMs' in given) ? { afterMs: 0, limit: given.limit } : given;
    const waitMs = Math.min(query.wait ?? 0, longPollSecondsMax) * 1000;
    const page =
      query.thread !== undefined && 'afterMs' in span
        ? (await messaging.rooms.thread(room, query.thread, span.afterMs, span.limit)).page
        : await messaging.rooms.read(room, span, waitMs, disconnectSignal(reply));
    if (waitMs > 0) await admitAgain(request);
    const authors = await messaging.authors.of(page.items);
    return {
      items: page.items.map((message) => shownRoomMessage(message, authors, to)),
      next_cursor: nextCursor(page, span),
    };
  },
  post: async (context) => {
    const { caller, params, body, request, idempotency } = context;
    const messaging = await admit(context);
    const { id, roomId, tsMs, created } = await messaging.rooms.post(
      caller,
      { ...byName(params.room), ...accessOf(request), admitRoom: admitRoom(context) },
      () => ({ body: body.body, pid: body.pid ?? '' }),
      signatureOf(request),
      idempotency,
    );
    return { id, room_id: roomId, ts: isoTime(tsMs), ...(created && { room_created: true as const }) };
  },
  get: async (context) => {
    const { caller, params, query, request } = context;
    const messaging = await admit(context);
    const room = await messaging.rooms.enter(caller, byName(params.room), accessOf(request));
    const message = await messaging.rooms.message(room, params.message);
    const to = { user: readerOf(room, caller), verify: query.verify === true };
    return shownRoomMessage(message, await messaging.authors.of([message]), to);
  },
  delete: async (context) => {
    const { caller, params } = context;
    const messaging = await admit(context);
    await messaging.rooms.remove(caller, byName(params.room), params.message);
    return answer(204);
  },
});

function byName(room: string): { room: string; byName: true } {
  return { room, byName: true };
}

/** Authors of a user's room are proven to that user, also if the operator reads. */
function readerOf({ owner }: Room, caller: Caller): string | null {
  return owner ?? userOf(caller);
}
