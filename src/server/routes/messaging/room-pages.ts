/** Caches the newest page of each room: rooms are read far more often than written. */
import { LRUCache } from 'lru-cache';
import type { Room } from '../../../messaging/model.js';
import { retentionOf } from '../../../messaging/rooms/visibility.js';
import type { MessagingPort, Span } from '../../../messaging/port.js';
import type { MessagingService } from '../../../messaging/service.js';

interface KeptPage {
  revision: number;
  /** When the oldest message on the page expires. */
  validUntilMs: number;
  json: string;
}

/**
 * For all pages of one store together. A page can have megabytes, and a room has one for each requested
 * limit.
 */
const charactersMax = 32_000_000;
const pagesMax = 1_000;

export class RoomPages {
  /**
   * A page is valid until its room changes or its oldest message expires. Without it GET /room/{id} costs ten
   * times as much.
   */
  readonly #pages = new WeakMap<MessagingPort, LRUCache<string, KeptPage>>();

  /** The cached page, if nothing on it has changed. */
  find(port: MessagingPort, room: Room, span: Span): string | undefined {
    const kept = isNewest(span) ? this.#pages.get(port)?.get(keyOf(room, span)) : undefined;
    return kept !== undefined &&
      kept.revision === port.roomRevision(room.id) &&
      kept.validUntilMs > port.nowMs()
      ? kept.json
      : undefined;
  }

  /**
   * `revision` is the room's revision before the page was read: a change in between makes the page outdated,
   * and it is not used.
   */
  keep(
    { port, limits }: MessagingService,
    room: Room,
    span: Span,
    revision: number | undefined,
    page: { messages: { ts: number }[] },
  ): void {
    if (revision === undefined || !isNewest(span)) return;
    const lastMs = page.messages.at(-1)?.ts;
    this.#pagesOf(port).set(keyOf(room, span), {
      revision,
      validUntilMs: lastMs === undefined ? Infinity : lastMs + retentionOf(room, limits) * 1000,
      json: JSON.stringify(page),
    });
  }

  #pagesOf(port: MessagingPort): LRUCache<string, KeptPage> {
    const known = this.#pages.get(port);
    if (known !== undefined) return known;
    const pages = new LRUCache<string, KeptPage>({
      max: pagesMax,
      maxSize: charactersMax,
      sizeCalculation: ({ json }) => json.length,
    });
    this.#pages.set(port, pages);
    return pages;
  }
}

function isNewest(span: Span): boolean {
  return !('afterMs' in span) && span.beforeMs === null;
}

function keyOf(room: Room, span: Span): string {
  return `${room.id} ${span.limit}`;
}
