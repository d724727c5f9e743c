/** The newest page of each room as it was last sent: rooms are read far more often than written. */
import type { Room } from '../../messaging/model.js';
import type { MessagingPort, Span } from '../../messaging/port.js';
import type { MessagingService } from '../../messaging/service.js';

interface KeptPage {
  revision: number;
  /** When the oldest message on the page ends its life. */
  validUntilMs: number;
  json: string;
}

const pagesMax = 1_000;

export class RoomPages {
  readonly #pages = new WeakMap<MessagingPort, Map<string, KeptPage>>();

  /** The page, as long as nothing on it has changed since. */
  find(port: MessagingPort, room: Room, span: Span): string | undefined {
    const kept = isNewest(span) ? this.#pages.get(port)?.get(keyOf(room, span)) : undefined;
    return kept !== undefined && kept.revision === port.roomRevision(room.id) && kept.validUntilMs > port.nowMs() ? kept.json : undefined;
  }

  /** `revision` is the room's from before the page was read: a change meanwhile makes the page stale, never wrong. */
  keep({ port, limits }: MessagingService, room: Room, span: Span, revision: number | undefined, page: { messages: { ts: number }[] }): void {
    if (revision === undefined || !isNewest(span)) return;
    const pages = this.#pages.get(port) ?? new Map<string, KeptPage>();
    this.#pages.set(port, pages);
    const [oldest] = pages.keys();
    if (pages.size >= pagesMax && oldest !== undefined) pages.delete(oldest);
    const lastMs = page.messages.at(-1)?.ts;
    pages.set(keyOf(room, span), { revision, validUntilMs: lastMs === undefined ? Infinity : lastMs + limits.messageRetentionSeconds * 1000, json: JSON.stringify(page) });
  }
}

function isNewest(span: Span): boolean {
  return !('afterMs' in span) && span.beforeMs === null;
}

function keyOf(room: Room, span: Span): string {
  return `${room.id} ${span.limit}`;
}
