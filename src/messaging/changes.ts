/** The changes that messaging announces in the feed, the same on every home. */
import type { Change } from '../core/change.js';

export type IdentityEvent = 'registered' | 'updated' | 'rotated' | 'linked' | 'unlinked';

export function identityChanged(id: string, event: IdentityEvent): Change {
  return { ...changed(`identity.${event}`, id), audience: 'public' };
}

export function roomCreated({ id, isPrivate }: { id: string; isPrivate: boolean }): Change {
  return { ...changed('room.created', id), audience: audienceOf(isPrivate) };
}

export function messagePosted(
  room: { id: string; isPrivate: boolean },
  message: { id: string; from: string; tsMs: number },
): Change {
  return {
    ...changed('message.posted', `${room.id}/${message.id}`),
    audience: audienceOf(room.isPrivate),
    facts: { room: room.id, from: message.from, ts: message.tsMs },
  };
}

export function messageDeleted(room: { id: string; isPrivate: boolean }, messageId: string): Change {
  return {
    ...changed('message.deleted', `${room.id}/${messageId}`),
    audience: audienceOf(room.isPrivate),
    facts: { room: room.id, message: messageId },
  };
}

export function directReceived(messageId: string, recipient: string): Change {
  return { ...changed('direct.received', messageId), audience: 'recipient', recipient };
}

function changed(kind: string, id: string): Pick<Change, 'domain' | 'kind' | 'id' | 'user' | 'version'> {
  return { domain: 'messaging', kind, id, user: null, version: null };
}

function audienceOf(isPrivate: boolean): 'public' | 'operator' {
  return isPrivate ? 'operator' : 'public';
}
