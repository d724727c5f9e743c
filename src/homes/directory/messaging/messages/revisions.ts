/** How often the messages of each room have changed, for readers that cache them. */

import { LRUCache } from 'lru-cache';

/**
 * Rooms with their own number. A room that is removed from the cache counts as changed, like all rooms that
 * are not in it.
 */
const roomsMax = 10_000;

export class RoomRevisions {
  readonly #byRoom: LRUCache<string, number>;
  /** Grows with every change, so that a room never has the same number twice. */
  #last = 0;
  /** The number of every room that is not in the cache. */
  #unknown = 0;

  constructor(max: number = roomsMax) {
    this.#byRoom = new LRUCache({
      max,
      dispose: (_revision, _roomId, reason) => {
        if (reason === 'evict') this.#unknown = this.#last += 1;
      },
    });
  }

  of(roomId: string): number {
    return this.#byRoom.get(roomId) ?? this.#unknown;
  }

  change(roomId: string): void {
    this.#byRoom.set(roomId, (this.#last += 1));
  }
}
