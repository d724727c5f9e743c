/** Access to rooms: finds the room of a request, by id or name, and checks its owner and its key. */
import type { Caller } from '../../core/caller.js';
import { StoaError } from '../../core/errors.js';
import { didYouMean } from '../../core/text/nearest.js';
import type { Room } from '../model.js';
import { roomNameOf } from '../names.js';
import type { MessagingPort } from '../port.js';
import { refuse } from '../refusals.js';
import type { RoomKeys } from './keys.js';
import { canSeeRoom, userOf } from './visibility.js';
import { canonicalRoomId } from '../identities/uuid.js';

/** The key and the address of a caller that asks for a room. */
export interface RoomAccess {
  key: string | undefined;
  /** Wrong keys are counted for this address, and for the caller. Undefined if the caller has no address. */
  address: string | undefined;
}

/** A room as a request names it. AICQ's routes take an id; all other doors take an id or a name. */
export interface RoomReference {
  room: string;
  byName?: boolean | undefined;
  /**
   * The look-up by this id, if it has begun. A write that is prepared again must not have it: the room may
   * have changed.
   */
  ahead?: Promise<Room | undefined> | undefined;
}

export interface EnteredRoom {
  room: Room;
  /** The hash of the key that opened the room. Null: the room has no key. Undefined: no key was needed. */
  keyHash: string | null | undefined;
}

/** Public rooms of one name that are compared. */
const namesakesMax = 20;
/** So many rooms of a user are compared with an unknown name. */
const namesComparedMax = 100;

export class RoomDoors {
  readonly #port: MessagingPort;
  readonly #keys: RoomKeys;

  constructor(port: MessagingPort, keys: RoomKeys) {
    this.#port = port;
    this.#keys = keys;
  }

  /** The room, if the caller may enter it. The operator may enter every room. */
  async enter(caller: Caller | null, reference: RoomReference, { key, address }: RoomAccess): Promise<Room> {
    const room = await this.find(caller, reference);
    if (caller?.kind !== 'operator' || key !== undefined)
      await this.#keys.check(room, key, { caller, address });
    return room;
  }

  /**
   * Like `enter`, for a write, which compares the hash again: a cached result for an earlier hash is not
   * used.
   */
  async enterToWrite(caller: Caller | null, room: Room, { key, address }: RoomAccess): Promise<EnteredRoom> {
    requireWrite(caller, room);
    if (caller?.kind === 'operator' && key === undefined) return { room, keyHash: undefined };
    const keyHash = room.isPrivate ? await this.#port.roomKeyHash(room.id) : null;
    await this.#keys.check(room, key, { caller, address }, keyHash);
    return { room, keyHash };
  }

  /** The room, if it exists for the caller. A room of another user does not. */
  async find(caller: Caller | null, reference: RoomReference): Promise<Room> {
    const { room: given, byName, ahead } = reference;
    const id = canonicalRoomId(given);
    if (id === undefined && byName !== true) throw refuse('roomId');
    const room = id === undefined ? await this.#named(caller, given) : await (ahead ?? this.#port.room(id));
    if (room !== undefined && canSeeRoom(caller, room)) return room;
    throw unknownRoom(given, id === undefined ? await this.#someNames(caller) : []);
  }

  /**
   * The room that a message by name goes to: a room of the caller's user, or a public room that an agent of
   * this user created. Never a public room that others created, because anyone can create one with the name
   * of a user's room. Undefined: the message creates the room.
   */
  async findToPost(caller: Caller | null, reference: RoomReference): Promise<Room | undefined> {
    const { room: given, byName } = reference;
    const user = userOf(caller);
    if (byName !== true || user === null || canonicalRoomId(given) !== undefined)
      return this.find(caller, reference);
    const name = roomNameOf(given);
    if (name === undefined) throw refuse('roomName', { details: { field: 'room' } });
    return (await this.#port.ownRoom(user, name)) ?? (await this.#publicBy(user, name));
  }

  /** The user's own room, else the public room of that name, if there is only one. */
  async #named(caller: Caller | null, given: string): Promise<Room | undefined> {
    const name = roomNameOf(given);
    if (name === undefined) return undefined;
    const user = userOf(caller);
    const own = user === null ? undefined : await this.#port.ownRoom(user, name);
    if (own !== undefined) return own;
    const made = user === null ? undefined : await this.#publicBy(user, name);
    if (made !== undefined) return made;
    const [first, second] = await this.#port.publicRoomsNamed(name, 2);
    if (second !== undefined)
      throw new StoaError('conflict', `Several public rooms have the name "${name}".`, {
        fix: 'Use the id of the room, from "stoa rooms ls --public" or GET /v1/rooms?public=1.',
        details: { field: 'room' },
      });
    return first;
  }

  /** Names of the user's rooms, to compare with an unknown one. */
  async #someNames(caller: Caller | null): Promise<string[]> {
    const user = userOf(caller);
    return user === null
      ? []
      : (await this.#port.ownRooms(user, null, namesComparedMax)).map(({ name }) => name);
  }

  /** The public room of that name that an agent of the user created; the oldest of several. */
  async #publicBy(user: string, name: string): Promise<Room | undefined> {
    const rooms = await this.#port.publicRoomsNamed(name, namesakesMax);
    const creators = rooms.flatMap(({ createdBy }) => (createdBy === null ? [] : [createdBy]));
    if (creators.length === 0) return undefined;
    const identities = await this.#port.identities([...new Set(creators)]);
    return rooms
      .filter(({ createdBy }) => identities.get(createdBy ?? '')?.link?.user === user)
      .toSorted((a, b) => a.createdAtMs - b.createdAtMs)[0];
  }
}

/** A link can give an identity read access only. Then it may not write in the rooms of its user. */
export function requireWrite(caller: Caller | null, { owner }: Pick<Room, 'owner'>): void {
  if (owner === null || caller === null || caller.scopes.write) return;
  throw new StoaError('forbidden', 'These credentials can only read the rooms of their user.', {
    fix: 'Use a token with the write scope, or link the identity with write access.',
  });
}

export function unknownRoom(given: string, known: readonly string[] = []): StoaError {
  return refuse('roomUnknown', {
    about: `Unknown room "${given.slice(0, 100)}".${didYouMean(given.slice(0, 100), known)}`,
    fix: 'Check the name or id with "stoa rooms ls" or GET /v1/rooms. A room of another user is not shown.',
    details: { field: 'room' },
  });
}
