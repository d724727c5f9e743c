/** A room without an owner, for calls of the port that need no more than its id. */
import type { RoomKeep } from '../../src/messaging/rooms/visibility.js';

export function publicRoom(id: string): RoomKeep {
  return { id, owner: null, retentionSeconds: null };
}
