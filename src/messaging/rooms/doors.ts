/** The doors of rooms: which room is meant, and whether its key fits. */
import type { Caller } from '../../core/caller.js';
import type { Room } from '../model.js';
import type { MessagingPort } from '../port.js';
import { refuse } from '../refusals.js';
import type { RoomKeys } from './keys.js';
import { canonicalRoomId } from '../identities/uuid.js';

/** How a caller comes to a room: with a key, from an address. */
export interface RoomAccess {
  key: string | undefined;
  /** For which wrong keys are counted, beside the caller; undefined where the caller has none. */
  address: string | undefined;
}

export interface EnteredRoom {
  room: Room;
  /** The hash of the key that opened it; null for a room without one, undefined where none was asked for. */
  keyHash: string | null | undefined;
}

export class RoomDoors {
  readonly #port: MessagingPort;
  readonly #keys: RoomKeys;

  constructor(port: MessagingPort, keys: RoomKeys) {
    this.#port = port;
    this.#keys = keys;
  }

  /** The room, when the caller may enter it. The operator's token opens every door. */
  async enter(caller: Caller | null, id: string, { key, address }: RoomAccess): Promise<Room> {
    const room = await this.find(id);
    if (caller?.kind !== 'operator' || key !== undefined)
      await this.#keys.check(room, key, { caller, address });
    return room;
  }

  /**
   * The same for a write, which compares the hash again: a cached result for an earlier hash does not count.
   */
  async enterToWrite(caller: Caller | null, id: string, { key, address }: RoomAccess): Promise<EnteredRoom> {
    const room = await this.find(id);
    if (caller?.kind === 'operator' && key === undefined) return { room, keyHash: undefined };
    const keyHash = room.isPrivate ? await this.#port.roomKeyHash(room.id) : null;
    await this.#keys.check(room, key, { caller, address }, keyHash);
    return { room, keyHash };
  }

  async find(id: string): Promise<Room> {
    const canonical = canonicalRoomId(id);
    if (canonical === undefined) throw refuse('roomId');
    const room = await this.#port.room(canonical);
    if (room === undefined) throw refuse('roomUnknown');
    return room;
  }
}
