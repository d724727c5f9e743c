/** The rooms as they are on disk, decoded once. Nearly every request of messaging reads a room, and few change it. */
import { LRUCache } from 'lru-cache';
import { entriesAtMost } from '../../../../core/entries-at-most.js';
import type { Store } from '../../kernel/store.js';
import { uuidBytes } from '../../../../messaging/identities/uuid.js';
import { readRoom } from './rooms.js';
import { type RoomRow, families } from '../rows.js';

/** About 500 bytes each. */
const roomsMax = 10_000;

export class RoomRows {
  readonly #store: Store;
  /** By the bytes of the id. Dropped when the room is written, in the same turn in which the write is on disk. */
  readonly #known = new LRUCache<string, RoomRow>(entriesAtMost(roomsMax));

  constructor(store: Store) {
    this.#store = store;
    store.onWritten((writes) => {
      for (const { family, key } of writes)
        if (family === families.rooms) this.#known.delete(key.toString('latin1'));
    });
  }

  /** Callers do not change the row. */
  get(id: string): RoomRow | undefined {
    return this.at(uuidBytes(id));
  }

  /** By the bytes of its id. */
  at(roomKey: Buffer): RoomRow | undefined {
    const name = roomKey.toString('latin1');
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const room = readRoom(this.#store, roomKey);
    if (room !== undefined) this.#known.set(name, room);
    return room;
  }
}
