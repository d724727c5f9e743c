/** Caches the newest page of each room and inbox: both are read far more often than written. */
import { LRUCache } from 'lru-cache';
import type { MessagingPort, Span, TopicName } from '../../../messaging/port.js';
import { JsonText } from '../../route.js';

/** A page of a room or an inbox, before it is read. */
export interface WantedPage {
  topic: TopicName;
  span: Span;
  retentionSeconds: number;
  /** Of the topic, from before anything that the page shows was read. Undefined: the page is not cached. */
  revision: number | undefined;
}

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

export class NewestPages {
  /**
   * A page is valid until its room or inbox changes or its oldest message expires. Without it GET /room/{id}
   * costs ten times as much, and GET /dm of 60 messages three times as much.
   */
  readonly #pages = new WeakMap<MessagingPort, LRUCache<string, KeptPage>>();

  /** The cached page if nothing on it has changed, otherwise the page that `read` returns. */
  async page<Page extends { messages: { ts: number }[] }>(
    port: MessagingPort,
    { topic, span, retentionSeconds, revision }: WantedPage,
    read: () => Promise<Page>,
  ): Promise<Page | JsonText> {
    if (revision === undefined || !isNewest(span)) return read();
    const pages = this.#pagesOf(port);
    const key = `${topic.kind} ${topic.id} ${span.limit}`;
    const kept = pages.get(key);
    if (kept?.revision === revision && kept.validUntilMs > port.nowMs()) return new JsonText(kept.json);
    const page = await read();
    const lastMs = page.messages.at(-1)?.ts;
    const validUntilMs = lastMs === undefined ? Infinity : lastMs + retentionSeconds * 1000;
    const json = JSON.stringify(page);
    pages.set(key, { revision, validUntilMs, json });
    return new JsonText(json);
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
