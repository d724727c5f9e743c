/** Who sees a room, and how long its messages are kept: the same answer on every door and on every home. */
import type { Caller } from '../../core/caller.js';
import type { Limits } from '../../core/settings/limits.js';
import type { Room } from '../model.js';

/** What the rules about reading a room need to know of it. */
export type RoomKeep = Pick<Room, 'id' | 'owner' | 'retentionSeconds'>;

type KeepLimits = Pick<Limits, 'messageRetentionSeconds' | 'ownRoomRetentionSeconds'>;

/** Everyone sees, finds and lists the room: it has no owner and no key. */
export function isPublic({ owner, isPrivate }: Pick<Room, 'owner' | 'isPrivate'>): boolean {
  return owner === null && !isPrivate;
}

/**
 * Whether the room exists for a caller. A room of a user exists only for that user and the operator. A room
 * with a key exists for everyone who may see its owner's rooms; its messages still need the key.
 */
export function canSeeRoom(caller: Caller | null, { owner }: Pick<Room, 'owner'>): boolean {
  if (owner === null) return true;
  return caller !== null && (caller.kind === 'operator' || caller.user === owner);
}

/** The user whose rooms a caller has; null for a caller without credentials and an identity without a link. */
export function userOf(caller: Caller | null): string | null {
  return caller === null || caller.user === '' ? null : caller.user;
}

/** How long a message of the room is found by its words: by the settings, because rooms share the word index. */
export function searchedSeconds({ owner }: Pick<Room, 'owner'>, limits: KeepLimits): number {
  return retentionOf({ owner, retentionSeconds: null }, limits);
}

/** How long the messages of a room are kept. */
export function retentionOf(
  { owner, retentionSeconds }: Pick<Room, 'owner' | 'retentionSeconds'>,
  limits: KeepLimits,
): number {
  if (retentionSeconds !== null) return retentionSeconds;
  return owner === null ? limits.messageRetentionSeconds : limits.ownRoomRetentionSeconds;
}
