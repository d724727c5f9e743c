/** How often the messages of each room have changed, for readers that cache them. */

import { LRUCache } from 'lru-cache';

/** Rooms that are told apart; one that is forgotten counts as changed, with all that were not known. */
const roomsMax = 10_000;

export class RoomRevisions {
  readonly #byRoom: LRUCache<string, number>;
  /** Grows with every change, so that no room ever has a number twice. */
  #last = 0;
  /** The number of every room that is not known. */
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
