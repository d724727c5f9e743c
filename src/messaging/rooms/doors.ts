/** Access to rooms: finds the room of a request and checks its key. */
import type { Caller } from '../../core/caller.js';
import type { Room } from '../model.js';
import type { MessagingPort } from '../port.js';
import { refuse } from '../refusals.js';
import type { RoomKeys } from './keys.js';
import { canonicalRoomId } from '../identities/uuid.js';

/** The key and the address of a caller that asks for a room. */
export interface RoomAccess {
  key: string | undefined;
  /** Wrong keys are counted for this address, and for the caller. Undefined if the caller has no address. */
  address: string | undefined;
}

export interface EnteredRoom {
  room: Room;
  /** The hash of the key that opened the room. Null: the room has no key. Undefined: no key was needed. */
  keyHash: string | null | undefined;
}

export class RoomDoors {
  readonly #port: MessagingPort;
  readonly #keys: RoomKeys;

  constructor(port: MessagingPort, keys: RoomKeys) {
    this.#port = port;
    this.#keys = keys;
  }

  /** The room, if the caller may enter it. The operator may enter every room. */
  async enter(caller: Caller | null, id: string, { key, address }: RoomAccess): Promise<Room> {
    const room = await this.find(id);
    if (caller?.kind !== 'operator' || key !== undefined)
      await this.#keys.check(room, key, { caller, address });
    return room;
  }

  /**
   * Like `enter`, for a write, which compares the hash again: a cached result for an earlier hash is not
   * used.
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
