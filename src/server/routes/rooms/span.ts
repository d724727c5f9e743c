/** Pages of messages: a time range or a cursor of the request, and the cursor of the next page. */
import type { Page, Span } from '../../../messaging/port.js';
import { decodeCursor, encodeCursor } from '../messaging/wire.js';

export interface SpanQuery {
  limit?: number | undefined;
  cursor?: string | undefined;
  before?: string | undefined;
  after?: string | undefined;
}

/** A cursor overrides `after`, and `after` overrides `before`. */
export function spanOf({ limit, cursor, before, after }: SpanQuery, fallback: number, max: number): Span {
  const items = Math.min(limit ?? fallback, max);
  if (cursor !== undefined) {
    const { direction, tsMs } = decodeCursor(cursor);
    return direction === 'after' ? { afterMs: tsMs, limit: items } : { beforeMs: tsMs, limit: items };
  }
  if (after !== undefined) return { afterMs: Date.parse(after), limit: items };
  return { beforeMs: before === undefined ? null : Date.parse(before), limit: items };
}

/** The cursor of the next page in the direction of this one; null at the end. */
export function nextCursor(page: Page<{ tsMs: number }>, span: Span): string | null {
  const last = page.items.at(-1);
  if (!page.hasMore || last === undefined) return null;
  return encodeCursor({ direction: 'afterMs' in span ? 'after' : 'before', tsMs: last.tsMs });
}
