/** Rooms in PostgreSQL. The feed outbox updates their counters after a message was stored in Redis. */
import type { Limits } from '../../../core/settings/limits.js';
import type { Room, Totals } from '../../../messaging/model.js';
import type { NewRoom, RoomName, RoomUpdate } from '../../../messaging/port.js';
import { refuse, requireRoomVersion, roomNameTaken, tooManyRooms } from '../../../messaging/refusals.js';
import { lockKeySql } from '../database/advisory-locks.js';
import { type Parameter, type PostgresSql, type Queryable, query } from '../database/connection.js';
import { retentionOf } from '../../../messaging/rooms/visibility.js';
import { markRoom } from '../find/room-marks.js';
import { PostgresStep } from '../write/step.js';
import type { Work } from '../write/work.js';
import { roomChanged } from '../../../messaging/changes.js';
import { publicRoomsStatement, topRoomsClause, totalsStatement } from './totals.js';

interface RoomRow {
  id: string;
  name: string;
  is_private: boolean;
  owner: string | null;
  retention_seconds: string | null;
  created_by: string | null;
  created_ms: string;
  active_ms: string;
  message_count: string;
  version: string;
}

/** The hash of a private room that was imported without its own: no key opens the room. */
export const lostKeyHash = '';

/** Does not include `key_hash`. A room of a user is private in the seed's table, with or without a key. */
const columns = `r.id, r.name, r.created_by, f.owner, f.retention_seconds,
  CASE WHEN f.owner IS NULL THEN r.is_private ELSE r.key_hash IS NOT NULL END AS is_private,
  (extract(epoch FROM r.created_at) * 1000)::bigint AS created_ms,
  (extract(epoch FROM CASE WHEN f.owner IS NULL THEN r.last_active_at ELSE f.last_active_at END)
    * 1000)::bigint AS active_ms,
  CASE WHEN f.owner IS NULL THEN r.message_count ELSE f.message_count END AS message_count,
  coalesce(f.version, 1) AS version`;
const selectRooms = `SELECT ${columns} FROM rooms r LEFT JOIN messaging.room_facts f ON f.room_id = r.id`;

function roomOf(row: RoomRow): Room {
  return {
    id: row.id,
    name: row.name,
    isPrivate: row.is_private,
    owner: row.owner,
    retentionSeconds: row.retention_seconds === null ? null : Number(row.retention_seconds),
    createdBy: row.created_by,
    createdAtMs: Number(row.created_ms),
    lastActiveAtMs: Number(row.active_ms),
    messageCount: Number(row.message_count),
    version: Number(row.version),
  };
}

type OwnedRoom = NewRoom & { owner: string };

export interface PostgresRoomsOptions {
  readonly nowMs: () => number;
  readonly limits: Limits;
  /** Called before the commit of a longer retention. If it throws, nothing is changed. */
  readonly onExtending: (room: Room) => Promise<void>;
  /** Called after the commit, for what Redis has of the room. */
  readonly onUpdated: (room: Room) => Promise<void>;
  readonly onDeleted: (id: string) => Promise<void>;
}

export class PostgresRooms {
  readonly #sql: PostgresSql;
  readonly #options: PostgresRoomsOptions;

  constructor(sql: PostgresSql, options: PostgresRoomsOptions) {
    this.#sql = sql;
    this.#options = options;
  }

  create(input: NewRoom): PostgresStep<Room> {
    return new PostgresStep([], async (work) => {
      const { owner, name } = input;
      if (owner !== null && (await this.#ownedBefore(work, { ...input, owner })) !== undefined)
        throw roomNameTaken(name);
      return this.#insert(work, input);
    });
  }

  /** The room of a user with this name; created if the user has none. */
  async open(work: Work, input: OwnedRoom): Promise<{ room: Room; created: boolean }> {
    const known = await this.#ownedBefore(work, input);
    return known === undefined
      ? { room: await this.#insert(work, input), created: true }
      : { room: known, created: false };
  }

  /** The lock makes two writes of one name take turns, also until Redis has the first message. */
  async #ownedBefore(work: Work, { owner, name }: OwnedRoom): Promise<Room | undefined> {
    await work.rows(lockKeySql('userRooms'), [owner]);
    const known = await this.own(owner, name, work.sql);
    if (known !== undefined) return known;
    const { limits } = this.#options;
    const [owned] = await work.rows<{ count: string }>(
      'SELECT count(*) AS count FROM messaging.room_facts WHERE owner = $1',
      [owner],
    );
    if (Number(owned?.count ?? 0) >= limits.ownRoomsMax) throw tooManyRooms(limits);
    return undefined;
  }

  async #insert(work: Work, input: NewRoom): Promise<Room> {
    const { name, isPrivate, keyHash, createdBy, owner, retentionSeconds } = input;
    const nowMs = this.#options.nowMs();
    // The activity of users' rooms is not in the seed's table.
    const activeMs = owner === null ? nowMs : 0;
    const [made] = await work.rows<{ id: string }>(
      `INSERT INTO rooms (name, is_private, key_hash, created_by, created_at, last_active_at)
       VALUES ($1, $2, $3, $4,
         to_timestamp($5::double precision / 1000), to_timestamp($6::double precision / 1000))
       RETURNING id`,
      [name, isPrivate || owner !== null, keyHash, createdBy, String(nowMs), String(activeMs)],
    );
    const { id } = made as { id: string };
    if (owner !== null)
      work.send(
        `INSERT INTO messaging.room_facts (room_id, owner, name, retention_seconds, last_active_at)
         VALUES ($1, $2, $3, $4, to_timestamp($5::double precision / 1000))`,
        [id, owner, name, retentionSeconds, String(nowMs)],
      );
    const room: Room = {
      id,
      name,
      isPrivate,
      owner,
      retentionSeconds,
      createdBy,
      createdAtMs: nowMs,
      lastActiveAtMs: nowMs,
      messageCount: 0,
      version: 1,
    };
    work.announce(roomChanged(room, 'created'));
    return room;
  }

  update(id: string, { name, retentionSeconds }: RoomUpdate, ifVersion?: number): PostgresStep<Room> {
    return new PostgresStep([], async (work) => {
      const before = await this.#locked(work, id);
      if (before === undefined) throw refuse('roomUnknown');
      requireRoomVersion(before, ifVersion);
      if (name !== undefined && name !== before.name && before.owner !== null) {
        await work.rows(lockKeySql('userRooms'), [before.owner]);
        if ((await this.own(before.owner, name, work.sql)) !== undefined) throw roomNameTaken(name);
      }
      const room = {
        ...before,
        name: name ?? before.name,
        retentionSeconds: retentionSeconds === undefined ? before.retentionSeconds : retentionSeconds,
        version: before.version + 1,
      };
      work.send('UPDATE rooms SET name = $2 WHERE id = $1', [id, room.name]);
      work.send(
        `INSERT INTO messaging.room_facts (room_id, name, retention_seconds, version) VALUES ($1, $2, $3, $4)
         ON CONFLICT (room_id) DO UPDATE
           SET name = excluded.name, retention_seconds = excluded.retention_seconds,
             version = excluded.version`,
        [id, room.name, room.retentionSeconds, room.version],
      );
      work.announce(roomChanged(room, 'updated'));
      if (room.retentionSeconds !== before.retentionSeconds) {
        markRoom(work, id);
        const { limits, onExtending } = this.#options;
        if (retentionOf(room, limits) > retentionOf(before, limits)) {
          await work.checkBeforeEffect();
          await onExtending(room);
        }
        work.afterCommit(() => this.#options.onUpdated(room));
      }
      return room;
    });
  }

  delete(id: string, ifVersion?: number): PostgresStep<boolean> {
    return new PostgresStep([], async (work) => {
      const room = await this.#locked(work, id);
      if (room !== undefined) requireRoomVersion(room, ifVersion);
      const gone = await work.rows<{ id: string }>('DELETE FROM rooms WHERE id = $1 RETURNING id', [id]);
      if (room === undefined || gone.length === 0) return false;
      markRoom(work, id);
      work.announce(roomChanged(room, 'deleted'));
      work.afterCommit(() => this.#options.onDeleted(id));
      return true;
    });
  }

  /** Two changes of one room take turns: each sees the version that the other made. */
  async #locked(work: Work, id: string): Promise<Room | undefined> {
    await work.rows('SELECT id FROM rooms WHERE id = $1 FOR UPDATE', [id]);
    return this.get(id, work.sql);
  }

  async own(owner: string, name: string, on: Queryable = this.#sql): Promise<Room | undefined> {
    const [room] = await this.#find('WHERE f.owner = $1 AND f.name = $2', [owner, name], on);
    return room;
  }

  publicNamed(name: string, limit: number): Promise<Room[]> {
    return this.#find('WHERE r.name = $1 AND r.is_private = FALSE LIMIT $2', [name, limit]);
  }

  listOwned(owner: string | null, after: RoomName | null, limit: number): Promise<Room[]> {
    return this.#find(
      `WHERE f.owner IS NOT NULL AND ($1::text IS NULL OR f.owner = $1)
        AND ($2::text IS NULL OR (f.owner, f.name) > ($2, $3 COLLATE "C"))
        ORDER BY f.owner, f.name LIMIT $4`,
      [owner, after?.owner ?? null, after?.name ?? null, limit],
    );
  }

  async #find(clause: string, parameters: readonly Parameter[], on: Queryable = this.#sql): Promise<Room[]> {
    return (await query<RoomRow>(on, `${selectRooms} ${clause}`, parameters)).map(roomOf);
  }

  async get(id: string, on: Queryable = this.#sql): Promise<Room | undefined> {
    return (await this.#find('WHERE r.id = $1', [id], on))[0];
  }

  async keyHash(id: string, on: Queryable = this.#sql): Promise<string | null> {
    const [row] = await query<{ key_hash: string | null }>(
      on,
      'SELECT nullif(key_hash, $2) AS key_hash FROM rooms WHERE id = $1',
      [id, lostKeyHash],
    );
    return row?.key_hash ?? null;
  }

  async many(ids: readonly string[]): Promise<Map<string, Room>> {
    if (ids.length === 0) return new Map();
    const found = await this.#find('WHERE r.id = ANY($1::uuid[])', [ids]);
    return new Map(found.map((room) => [room.id, room]));
  }

  async listPublic(limit: number, offset: number): Promise<{ rooms: Room[]; total: number }> {
    const [rooms, counted] = await Promise.all([
      this.#find('WHERE r.is_private = FALSE ORDER BY r.last_active_at DESC, r.id DESC LIMIT $1 OFFSET $2', [
        limit,
        offset,
      ]),
      query<{ total: string }>(this.#sql, publicRoomsStatement),
    ]);
    return { rooms, total: Number(counted[0]?.total ?? 0) };
  }

  async totals(): Promise<Totals> {
    const [[counts], top] = await Promise.all([
      query<{ agents: string; rooms: string; messages: string; active_ms: string | null }>(
        this.#sql,
        totalsStatement,
      ),
      this.#find(topRoomsClause, []),
    ]);
    return {
      agents: Number(counts?.agents ?? 0),
      publicRooms: Number(counts?.rooms ?? 0),
      messages: Number(counts?.messages ?? 0),
      lastActivityAtMs:
        counts?.active_ms === null || counts?.active_ms === undefined ? null : Number(counts.active_ms),
      top,
    };
  }
}
