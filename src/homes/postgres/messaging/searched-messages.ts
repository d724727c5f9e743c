/** Messages as the search reads them: their text is in Redis, the marks of their places in PostgreSQL. */
import type { Limits } from '../../../core/settings/limits.js';
import type { EntryName } from '../../../find/model.js';
import { retentionOf } from '../../../messaging/rooms/visibility.js';
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

  readonly read: SearchedMessages['read'] = async (names) => {
    const kept = await this.#parts.rooms.many([...new Set(names.map(({ collection }) => collection))]);
    const messages: ReadMessage[] = [];
    for (const room of kept.values()) {
      // Messages that need a key are in no index.
      if (room.isPrivate) continue;
      const seconds = retentionOf(room, this.#limits);
      const wanted = names
        .filter(({ collection }) => collection === room.id)
        .map(({ id }) => ({ roomId: room.id, messageId: id }));
      for (const message of await this.#parts.messages.findMany(wanted, seconds))
        messages.push({ message, expiresAtMs: message.tsMs + seconds * 1_000 });
    }
    return messages;
  };

  /**
   * A post is acknowledged when Redis has it. Its mark follows with its row of the feed; if that failed, the
   * row waits in Redis. So a search first moves what waits.
   */
  readonly markAll: SearchedMessages['markAll'] = async (rooms) => {
    const { feedOutbox, keys, redis } = this.#parts;
    if (rooms === null || !redis.isCluster) return feedOutbox.moveAll();
    for (const room of rooms) await feedOutbox.move(keys.roomFeedOutbox(room));
  };

  /** Messages of a room with a key need the key, also for the owner. */
  readonly readableRooms: SearchedMessages['readableRooms'] = async (owner) => {
    const rows = await query<{ id: string }>(
      this.#sql,
      `SELECT id FROM rooms WHERE NOT is_private
        UNION SELECT r.id FROM messaging.room_facts f JOIN rooms r ON r.id = f.room_id
          WHERE f.owner = $1 AND r.key_hash IS NULL`,
      [owner],
    );
    return new Set(rows.map(({ id }) => id));
  };

  async *all(): AsyncGenerator<EntryName> {
    const ids = await query<{ id: string }>(this.#sql, 'SELECT id FROM rooms ORDER BY id');
    for (const { id } of ids) {
      const room = await this.#parts.rooms.get(id);
      if (room === undefined || room.isPrivate) continue;
      for (let afterMs = 0; ;) {
        const { items, hasMore } = await this.#parts.messages.read(room, { afterMs, limit: pageMessages });
        for (const message of items) yield { kind: 'messages', collection: id, id: message.id };
        const last = items.at(-1);
        if (!hasMore || last === undefined) break;
        afterMs = last.tsMs;
      }
    }
  }
}
