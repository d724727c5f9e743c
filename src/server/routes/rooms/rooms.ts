/** The handlers of rooms under /v1. */
import { rooms } from '../../../api/rooms/operations.js';
import { roomSchemas } from '../../../api/rooms/schemas.js';
import type { Caller } from '../../../core/caller.js';
import { StoaError } from '../../../core/errors.js';
import { publicRetention } from '../../../messaging/refusals.js';
import { type Page, decodeTextCursor, encodeCursor, invalidCursor, pageLimit } from '../../../core/paging.js';
import { invalidCharacterIn } from '../../../core/text/invalid-character.js';
import type { Room } from '../../../messaging/model.js';
import type { RoomName } from '../../../messaging/port.js';
import type { MessagingService } from '../../../messaging/service.js';
import { userOf } from '../../../messaging/rooms/visibility.js';
import { answer, routesOf } from '../../route.js';
import { signatureOf } from '../messaging/gate.js';
import { admit } from './admission.js';
import { shownRoom } from './shown.js';

export const roomRoutes = routesOf('rooms', rooms, roomSchemas, {
  list: async (context) => {
    const messaging = await admit(context);
    const { items, next_cursor } = await listed(messaging, context.caller, context.query);
    return { items: items.map((room) => shownRoom(room, messaging.limits)), next_cursor };
  },
  create: async (context) => {
    const { caller, body, request, idempotency } = context;
    const messaging = await admit(context);
    const { name, key = '', is_private = key !== '', retention_seconds } = body;
    const owner = body.public === true ? null : userOf(caller);
    if (owner === null && body.public !== true)
      throw new StoaError('forbidden', 'This identity is not linked to a user, so it cannot own a room.', {
        fix: 'Set "public" to true, or ask a user to link the identity.',
      });
    if (owner === null && retention_seconds !== undefined) throw publicRetention();
    const input = { name, is_private, key, owner, retentionSeconds: retention_seconds ?? null };
    const room = await messaging.rooms.create(caller, input, signatureOf(request), idempotency);
    return shownRoom(room, messaging.limits);
  },
  get: async (context) => {
    const messaging = await admit(context);
    return shownRoom(await messaging.rooms.find(context.caller, context.params.room), messaging.limits);
  },
  update: async (context) => {
    const messaging = await admit(context);
    const { caller, params, body, ifVersion } = context;
    const { name, retention_seconds: retentionSeconds } = body;
    const change = {
      ...(name !== undefined && { name }),
      ...(retentionSeconds !== undefined && { retentionSeconds }),
    };
    return shownRoom(await messaging.rooms.update(caller, params.room, change, ifVersion), messaging.limits);
  },
  delete: async (context) => {
    const messaging = await admit(context);
    await messaging.rooms.delete(context.caller, context.params.room, context.ifVersion);
    return answer(204);
  },
});

const roomList = 'rooms';
/** Holds an owner, a room name and the words of `placePattern`. */
const cursorBytesMax = 2_048;
const placePattern = /^(?:public\/(\d{1,15})|own\/0\/([^/]+)\/([\w-]{1,50}))$/;

/** The user's rooms by name, then public rooms. The operator without a user lists the rooms of all users. */
async function listed(
  messaging: MessagingService,
  caller: Caller,
  query: { limit?: number | undefined; cursor?: string | undefined; public?: boolean | undefined },
): Promise<Page<Room>> {
  const limit = pageLimit(query.limit, messaging.limits);
  const list = `${roomList} ${String(query.public)}`;
  const place = placeOf(decodeTextCursor(list, query.cursor, cursorBytesMax));
  const cursorOf = (...parts: (string | number)[]): string =>
    encodeCursor(list, Buffer.from(parts.join('/')));
  const found: Room[] = [];
  if (query.public !== true && place.skipped === null) {
    const user = caller.everyUser ? null : userOf(caller);
    const own = user === null && !caller.everyUser ? [] : await messaging.rooms.own(user, place.after, limit);
    const last = own.at(-1);
    if (own.length === limit && last !== undefined)
      return { items: own, next_cursor: cursorOf('own', 0, encodeURIComponent(last.owner ?? ''), last.name) };
    found.push(...own);
    if (query.public === false) return { items: found, next_cursor: null };
  }
  const skipped = place.skipped ?? 0;
  const { rooms: open, total } = await messaging.rooms.channels(limit - found.length, skipped);
  const reached = skipped + open.length;
  return {
    items: [...found, ...open],
    next_cursor: open.length > 0 && reached < total ? cursorOf('public', reached) : null,
  };
}

/** Where a page begins: after a room of a user, or at a number of public rooms. */
interface Place {
  after: RoomName | null;
  skipped: number | null;
}

function placeOf(key: string | null): Place {
  if (key === null) return { after: null, skipped: null };
  const [, skipped, owner, name] = placePattern.exec(key) ?? [];
  if (skipped !== undefined) return { after: null, skipped: Number(skipped) };
  if (owner === undefined || name === undefined) throw invalidCursor();
  return { after: { owner: decoded(owner), name }, skipped: null };
}

function decoded(text: string): string {
  try {
    const owner = decodeURIComponent(text);
    if (invalidCharacterIn(owner) === undefined) return owner;
  } catch (error) {
    throw invalidCursor(error);
  }
  throw invalidCursor();
}
