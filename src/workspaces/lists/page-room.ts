/** How much of a page is left. A page of long records ends early, because it is written as JSON in one turn. */
import type { PageSize } from '../port.js';

export class PageRoom {
  #items: number;
  #bytes: number;

  constructor({ limit, bytesMax = Infinity }: PageSize) {
    this.#items = limit;
    this.#bytes = bytesMax;
  }

  get isFull(): boolean {
    return this.#items <= 0 || this.#bytes <= 0;
  }

  take(record: object): void {
    this.#items -= 1;
    for (const value of Object.values(record) as unknown[]) {
      if (value === undefined) continue;
      this.#bytes -= typeof value === 'string' ? value.length : JSON.stringify(value).length;
    }
  }
}

/** The first records that fit on a page. There are more after them if `isMore`. */
export function firstPage<Item extends object>(
  records: Iterable<Item>,
  size: PageSize,
): { items: Item[]; isMore: boolean } {
  const room = new PageRoom(size);
  const items: Item[] = [];
  for (const record of records) {
    if (room.isFull) return { items, isMore: true };
    room.take(record);
    items.push(record);
  }
  return { items, isMore: false };
}
