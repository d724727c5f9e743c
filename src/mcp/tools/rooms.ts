/** Rooms of the message tools, by name or id. */
import type { Caller } from '../../core/caller.js';
import type { Stoa } from '../../index.js';
import type { Room } from '../../messaging/model.js';

/** The room, if it exists for the caller and its key fits. */
export function enterRoom(stoa: Stoa, caller: Caller, room: string, key: string | undefined): Promise<Room> {
  return stoa.messaging.rooms.enter(caller, { room, byName: true }, { key, address: caller.address });
}
