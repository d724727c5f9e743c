/** Rooms in PostgreSQL. The feed outbox updates their counters after a message was stored in Redis. */
import { LRUCache } from 'lru-cache';
import { StoaError } from '../../../core/errors.js';
import type { Room, Totals } from '../../../messaging/model.js';
import type { NewRoom } from '../../../messaging/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { PostgresStep } from '../write/step.js';
import { roomCreated } from '../../../messaging/changes.js';
import { publicRoomsStatement, topRoomsClause, totalsStatement } from './totals.js';

interface RoomRow {
  id: string;
  name: string;
  is_private: boolean;
  created_by: string | null;
  created_ms: string;
  active_ms: string;
  message_count: string;
}

/** Does not include `key_hash`. */
const columns = `id, name, is_private, created_by,
  (extract(epoch FROM created_at) * 1000)::bigint AS created_ms,
  (extract(epoch FROM last_active_at) * 1000)::bigint AS active_ms, message_count`;

function roomOf(row: RoomRow): Room {
  return {
    id: row.id,
    name: row.name,
    isPrivate: row.is_private,
    createdBy: row.created_by,
    createdAtMs: Number(row.created_ms),
    lastActiveAtMs: Number(row.active_ms),
    messageCount: Number(row.message_count),
  };
}

const cachedRoomsMax = 10_000;

interface CachedRoom {
  readonly room: Room;
  readonly keyHash: string | null;
}

export class PostgresRooms {
  readonly #sql: PostgresSql;
  readonly #nowMs: () => number;
  /** Used only while PostgreSQL is unavailable. */
  readonly #cache = new LRUCache<string, CachedRoom>({ max: cachedRoomsMax });

  constructor(sql: PostgresSql, nowMs: () => number) {
    this.#sql = sql;
    this.#nowMs = nowMs;
  }

  create({ name, isPrivate, keyHash, createdBy }: NewRoom): PostgresStep<Room> {
    return new PostgresStep([], async (work) => {
      const [row] = await work.rows<RoomRow>(
        `INSERT INTO rooms (name, is_private, key_hash, created_by, created_at, last_active_at)
         VALUES ($1, $2, $3, $4,
           to_timestamp($5::double precision / 1000), to_timestamp($5::double precision / 1000))
         RETURNING ${columns}`,
        [name, isPrivate, keyHash, createdBy, String(this.#nowMs())],
      );
      const room = roomOf(row as RoomRow);
      work.announce(roomCreated(room));
      return room;
    });
  }

  async get(id: string, on: Queryable = this.#sql): Promise<Room | undefined> {
    return (await this.#find(id, on))?.room;
  }

  async keyHash(id: string): Promise<string | null> {
    return (await this.#find(id))?.keyHash ?? null;
  }

  async #find(id: string, on: Queryable = this.#sql): Promise<CachedRoom | undefined> {
    try {
      const [row] = await query<RoomRow & { key_hash: string | null }>(
        on,
        `SELECT ${columns}, key_hash FROM rooms WHERE id = $1`,
        [id],
      );
      if (row === undefined) return undefined;
      const found = { room: roomOf(row), keyHash: row.key_hash };
      this.#cache.set(id, found);
      return found;
    } catch (error) {
      const cached = this.#cache.get(id);
      if (cached === undefined || !(error instanceof StoaError) || error.code !== 'backend_unavailable')
        throw error;
      return cached;
    }
  }

  async many(ids: readonly string[]): Promise<Map<string, Room>> {
    if (ids.length === 0) return new Map();
    const rows = await query<RoomRow>(this.#sql, `SELECT ${columns} FROM rooms WHERE id = ANY($1::uuid[])`, [
      ids,
    ]);
    return new Map(rows.map((row) => [row.id, roomOf(row)]));
  }

  async listPublic(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    const [rows, counted] = await Promise.all([
      query<RoomRow>(
        this.#sql,
        `SELECT ${columns} FROM rooms WHERE is_private = FALSE
          ORDER BY last_active_at DESC, id LIMIT $1 OFFSET $2`,
        [limit, offset],
      ),
      query<{ total: string }>(this.#sql, publicRoomsStatement),
    ]);
    return { rooms: rows.map(roomOf), total: Number(counted[0]?.total ?? 0) };
  }

  async totals(): Promise<Totals> {
    const [[counts], top] = await Promise.all([
      query<{ agents: string; rooms: string; messages: string; active_ms: string | null }>(
        this.#sql,
        totalsStatement,
      ),
      query<RoomRow>(this.#sql, `SELECT ${columns} ${topRoomsClause}`),
    ]);
    return {
      agents: Number(counts?.agents ?? 0),
      publicRooms: Number(counts?.rooms ?? 0),
      messages: Number(counts?.messages ?? 0),
      lastActivityAtMs:
        counts?.active_ms === null || counts?.active_ms === undefined ? null : Number(counts.active_ms),
      top: top.map(roomOf),
    };
  }
}
