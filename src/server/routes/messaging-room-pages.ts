/** Caches the newest page of each room: rooms are read far more often than written. */
import type { Room } from '../../messaging/model.js';
import type { MessagingPort, Span } from '../../messaging/port.js';
import type { MessagingService } from '../../messaging/service.js';

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

interface KeptPages {
  /** Oldest first. */
  byName: Map<string, KeptPage>;
  characters: number;
}

export class RoomPages {
  readonly #pages = new WeakMap<MessagingPort, KeptPages>();

  /** The cached page, if nothing on it has changed. */
  find(port: MessagingPort, room: Room, span: Span): string | undefined {
    const kept = isNewest(span) ? this.#pages.get(port)?.byName.get(keyOf(room, span)) : undefined;
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
    const pages = this.#pages.get(port) ?? { byName: new Map<string, KeptPage>(), characters: 0 };
    this.#pages.set(port, pages);
    const name = keyOf(room, span);
    const lastMs = page.messages.at(-1)?.ts;
    const kept = {
      revision,
      validUntilMs: lastMs === undefined ? Infinity : lastMs + limits.messageRetentionSeconds * 1000,
      json: JSON.stringify(page),
    };
    drop(pages, name);
    pages.byName.set(name, kept);
    pages.characters += kept.json.length;
    for (const oldest of pages.byName.keys()) {
      if (pages.characters <= charactersMax && pages.byName.size <= pagesMax) break;
      drop(pages, oldest);
    }
  }
}

function drop(pages: KeptPages, name: string): void {
  pages.characters -= pages.byName.get(name)?.json.length ?? 0;
  pages.byName.delete(name);
}

function isNewest(span: Span): boolean {
  return !('afterMs' in span) && span.beforeMs === null;
}

function keyOf(room: Room, span: Span): string {
  return `${room.id} ${span.limit}`;
}
