/** The changes that messaging announces in the feed, the same on every home. */
import type { Change } from '../core/change.js';
import { isoTime } from '../core/text/iso-time.js';
import type { Room } from './model.js';

export type IdentityEvent = 'registered' | 'updated' | 'rotated' | 'linked' | 'unlinked' | 'imported';

export function identityChanged(id: string, event: IdentityEvent): Change {
  return { ...changed(`identity.${event}`, id), audience: 'public' };
}

/** What a change says about its room: who may see it. */
export type AnnouncedRoom = Pick<Room, 'id' | 'isPrivate' | 'owner'>;

export type RoomEvent = 'created' | 'updated' | 'deleted' | 'imported';

export function roomChanged(room: AnnouncedRoom, event: RoomEvent): Change {
  return { ...changed(`room.${event}`, room.id), ...audienceOf(room) };
}

export function messagePosted(
  room: AnnouncedRoom,
  message: { id: string; from: string; tsMs: number },
): Change {
  return {
    ...changed('message.posted', `${room.id}/${message.id}`),
    ...audienceOf(room),
    facts: { room: room.id, from: message.from, ts: isoTime(message.tsMs) },
  };
}

/** Readers may have passed the time of this message, so they read the room again. */
export function messageImported(room: AnnouncedRoom, messageId: string): Change {
  return {
    ...changed('message.imported', `${room.id}/${messageId}`),
    ...audienceOf(room),
    facts: { room: room.id },
  };
}

export function messageDeleted(room: AnnouncedRoom, messageId: string): Change {
  return {
    ...changed('message.deleted', `${room.id}/${messageId}`),
    ...audienceOf(room),
    facts: { room: room.id, message: messageId },
  };
}

export function directReceived(messageId: string, recipient: string): Change {
  return { ...changed('direct.received', messageId), audience: 'recipient', recipient };
}

/** Readers may have passed the time of this message, so they read the inbox again. */
export function directImported({ id, to }: { id: string; to: string }): Change {
  return { ...changed('direct.imported', id), audience: 'recipient', recipient: to };
}

function changed(kind: string, id: string): Pick<Change, 'domain' | 'kind' | 'id' | 'user' | 'version'> {
  return { domain: 'messaging', kind, id, user: null, version: null };
}

/** Changes of a user's room are that user's, whether or not the room has a key. */
function audienceOf({ owner, isPrivate }: AnnouncedRoom): Pick<Change, 'audience' | 'user'> {
  if (owner !== null) return { user: owner, audience: 'owner' };
  return { user: null, audience: isPrivate ? 'operator' : 'public' };
}
