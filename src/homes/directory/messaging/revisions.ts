/** How often the messages of each room have changed, for readers that cache them. */

/** Rooms that are counted. Beyond it all counts are dropped, as if all rooms had changed. */
const roomsMax = 100_000;

export class RoomRevisions {
  readonly #byRoom = new Map<string, number>();
  readonly #roomsMax: number;
  /** Grows with every change, so that no room ever has a number twice. */
  #last = 0;
  /** The number of every room that is not known. */
  #unknown = 0;

  constructor(max: number = roomsMax) {
    this.#roomsMax = max;
  }

  of(roomId: string): number {
    return this.#byRoom.get(roomId) ?? this.#unknown;
  }

  change(roomId: string): void {
    this.#last += 1;
    if (this.#byRoom.size >= this.#roomsMax && !this.#byRoom.has(roomId)) {
      this.#byRoom.clear();
      this.#unknown = this.#last;
      this.#last += 1;
    }
    this.#byRoom.set(roomId, this.#last);
  }
}
