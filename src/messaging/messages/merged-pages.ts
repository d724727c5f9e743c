/** One page of messages from several inboxes. */
import type { DirectMessage } from '../model.js';
import type { Page, Span } from '../port.js';

/**
 * The first messages of all pages, in the order of the span. A page ends after a time, never between two
 * messages of one time, because the next page begins after that time: it may have a message more for each
 * further inbox.
 */
export function mergedPage(pages: readonly Page<DirectMessage>[], span: Span): Page<DirectMessage> {
  const [only] = pages;
  if (only !== undefined && pages.length === 1) return only;
  const sign = 'afterMs' in span ? 1 : -1;
  const items = pages.flatMap((page) => page.items).toSorted((a, b) => sign * (a.tsMs - b.tsMs));
  const lastMs = items[span.limit - 1]?.tsMs;
  const first = items.filter(({ tsMs }, index) => index < span.limit || tsMs === lastMs);
  return { items: first, hasMore: first.length < items.length || pages.some(({ hasMore }) => hasMore) };
}
