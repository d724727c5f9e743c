/** Rooms in PostgreSQL, and their counters, which catch up with the messages in Redis. */
import { StoaError } from '../../../core/errors.js';
import type { Room, Totals } from '../../../messaging/model.js';
import type { NewRoom } from '../../../messaging/port.js';
import { type PostgresSql, type Queryable, query } from '../connection.js';
import type { Teller } from './news.js';
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

/** `key_hash` is never among them. */
const columns = `id, name, is_private, created_by, (extract(epoch FROM created_at) * 1000)::bigint AS created_ms,
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

export class PostgresRooms {
  readonly #sql: PostgresSql;
  readonly #nowMs: () => number;
  readonly #teller: Teller;
  /** For reading on while PostgreSQL is away. */
  readonly #cache = new Map<string, { room: Room; keyHash: string | null }>();

  constructor(sql: PostgresSql, nowMs: () => number, teller: Teller) {
    this.#sql = sql;
    this.#nowMs = nowMs;
    this.#teller = teller;
  }

  async create({ name, isPrivate, keyHash, createdBy }: NewRoom): Promise<Room> {
    const nowMs = String(this.#nowMs());
    const [row] = await query<RoomRow>(
      this.#sql,
      `INSERT INTO rooms (name, is_private, key_hash, created_by, created_at, last_active_at)
       VALUES ($1, $2, $3, $4, to_timestamp($5::double precision / 1000), to_timestamp($5::double precision / 1000)) RETURNING ${columns}`,
      [name, isPrivate, keyHash, createdBy, nowMs],
    );
    const room = roomOf(row as RoomRow);
    await this.#teller.roomMade(room);
    return room;
  }

  async get(id: string, on: Queryable = this.#sql): Promise<Room | undefined> {
    return (await this.#find(id, on))?.room;
  }

  async keyHash(id: string): Promise<string | null> {
    return (await this.#find(id))?.keyHash ?? null;
  }

  async #find(
    id: string,
    on: Queryable = this.#sql,
  ): Promise<{ room: Room; keyHash: string | null } | undefined> {
    try {
      const [row] = await query<RoomRow & { key_hash: string | null }>(
        on,
        `SELECT ${columns}, key_hash FROM rooms WHERE id = $1`,
        [id],
      );
      if (row === undefined) return undefined;
      const found = { room: roomOf(row), keyHash: row.key_hash };
      this.#remember(id, found);
      return found;
    } catch (error) {
      const cached = this.#cache.get(id);
      if (cached === undefined || !(error instanceof StoaError) || error.code !== 'backend_unavailable')
        throw error;
      return cached;
    }
  }

  #remember(id: string, found: { room: Room; keyHash: string | null }): void {
    this.#cache.delete(id);
    this.#cache.set(id, found);
    const [oldest] = this.#cache.keys();
    if (this.#cache.size > cachedRoomsMax && oldest !== undefined) this.#cache.delete(oldest);
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
        `SELECT ${columns} FROM rooms WHERE is_private = FALSE ORDER BY last_active_at DESC, id LIMIT $1 OFFSET $2`,
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

  /** Totals only grow, so that the same one written twice, or an older one after it, changes nothing. */
  async setCount(id: string, total: number, activeMs: number): Promise<void> {
    await query(
      this.#sql,
      'UPDATE rooms SET message_count = greatest(message_count, $2::bigint), last_active_at = greatest(last_active_at, to_timestamp($3::double precision / 1000)) WHERE id = $1',
      [id, String(total), String(activeMs)],
    );
  }
}

const retryMs = 1_000;

/** Brings running totals from Redis to PostgreSQL: at once where that works, again and again where it does not. */
export class RoomCounters {
  readonly #rooms: PostgresRooms;
  readonly #onError: (error: unknown, about: string) => void;
  readonly #waiting = new Map<string, { total: number; activeMs: number }>();
  readonly #writing = new Map<string, Promise<void>>();
  #retry: NodeJS.Timeout | undefined;
  #closed = false;

  constructor(rooms: PostgresRooms, onError: (error: unknown, about: string) => void) {
    this.#rooms = rooms;
    this.#onError = onError;
  }

  /** Resolves when the total, or a later one, is written, or was put off because PostgreSQL is away. */
  async record(roomId: string, total: number, activeMs: number): Promise<void> {
    const before = this.#waiting.get(roomId);
    this.#waiting.set(roomId, {
      total: Math.max(total, before?.total ?? 0),
      activeMs: Math.max(activeMs, before?.activeMs ?? 0),
    });
    // Whoever posts while a total is being written shares the next write.
    await this.#writing.get(roomId);
    const running = this.#writing.get(roomId) ?? this.#write(roomId);
    await running;
  }

  #write(roomId: string): Promise<void> {
    const next = this.#waiting.get(roomId);
    if (next === undefined) return Promise.resolve();
    this.#waiting.delete(roomId);
    const writing = this.#rooms
      .setCount(roomId, next.total, next.activeMs)
      .catch((error: unknown) => this.#putOff(roomId, next, error))
      .finally(() => this.#writing.delete(roomId));
    this.#writing.set(roomId, writing);
    return writing;
  }

  #putOff(roomId: string, { total, activeMs }: { total: number; activeMs: number }, error: unknown): void {
    const later = this.#waiting.get(roomId);
    this.#waiting.set(roomId, {
      total: Math.max(total, later?.total ?? 0),
      activeMs: Math.max(activeMs, later?.activeMs ?? 0),
    });
    this.#onError(error, 'writing the counters of a room; it is tried again');
    if (this.#closed || this.#retry !== undefined) return;
    this.#retry = setTimeout(() => {
      this.#retry = undefined;
      for (const waiting of this.#waiting.keys()) void this.#write(waiting);
    }, retryMs);
    this.#retry.unref();
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#retry);
    await Promise.all(this.#writing.values());
  }
}
