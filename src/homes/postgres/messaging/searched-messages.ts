/** Messages as the search reads them: their text is in Redis, the marks of their places in PostgreSQL. */
import type { Limits } from '../../../core/settings/limits.js';
import type { EntryName } from '../../../find/model.js';
import type { Message } from '../../../messaging/model.js';
import { type PostgresSql, query } from '../database/connection.js';
import type { ReadMessage, SearchedMessages } from '../find/messages.js';
import type { MessagingParts } from './parts.js';

/** Messages that are read at once when all are listed. */
const pageMessages = 200;

export class PostgresSearchedMessages implements SearchedMessages {
  readonly #parts: MessagingParts;
  readonly #sql: PostgresSql;
  readonly #limits: Limits;

  constructor(parts: MessagingParts, sql: PostgresSql, limits: Limits) {
    this.#parts = parts;
    this.#sql = sql;
    this.#limits = limits;
  }

  async read(names: readonly EntryName[]): Promise<ReadMessage[]> {
    const wanted = names.map(({ collection, id }) => ({ roomId: collection, messageId: id }));
    const [found, kept] = await Promise.all([
      this.#parts.messages.findMany(wanted),
      this.#retention([...new Set(names.map(({ collection }) => collection))]),
    ]);
    return found.map((message) => ({ message, expiresAtMs: message.tsMs + this.#keptMs(message, kept) }));
  }

  /**
   * A post is acknowledged when Redis has it. Its mark follows with its row of the feed; if that failed, the row waits
   * in Redis. So a search first moves what waits.
   */
  async markAll(rooms: readonly string[] | null): Promise<void> {
    const { feedOutbox, keys, redis } = this.#parts;
    if (rooms === null || !redis.isCluster) return feedOutbox.moveAll();
    for (const room of rooms) await feedOutbox.move(keys.roomFeedOutbox(room));
  }

  async readableRooms(owner: string | null): Promise<ReadonlySet<string>> {
    const rows = await query<{ id: string }>(
      this.#sql,
      `SELECT id FROM rooms WHERE NOT is_private
        UNION SELECT room_id FROM messaging.room_facts WHERE owner = $1`,
      [owner],
    );
    return new Set(rows.map(({ id }) => id));
  }

  async *all(): AsyncGenerator<EntryName> {
    const rooms = await query<{ id: string }>(this.#sql, 'SELECT id FROM rooms ORDER BY id');
    for (const { id: room } of rooms) {
      let afterMs = 0;
      for (;;) {
        const { items, hasMore } = await this.#parts.messages.read(room, { afterMs, limit: pageMessages });
        for (const { id } of items) yield { kind: 'messages', collection: room, id };
        const last = items.at(-1);
        if (!hasMore || last === undefined) break;
        afterMs = last.tsMs;
      }
    }
  }

  /** The rooms that keep their messages for another time than the settings say. */
  async #retention(rooms: readonly string[]): Promise<ReadonlyMap<string, number>> {
    const rows = await query<{ room_id: string; seconds: string }>(
      this.#sql,
      `SELECT room_id, retention_seconds AS seconds FROM messaging.room_facts
        WHERE room_id = ANY($1::uuid[]) AND retention_seconds IS NOT NULL`,
      [rooms],
    );
    return new Map(rows.map(({ room_id: room, seconds }) => [room, Number(seconds) * 1_000]));
  }

  #keptMs({ roomId }: Message, kept: ReadonlyMap<string, number>): number {
    return kept.get(roomId) ?? this.#limits.messageRetentionSeconds * 1_000;
  }
}
