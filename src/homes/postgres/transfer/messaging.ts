/**
 * Reads and writes identities, rooms, messages and direct messages of PostgreSQL and Redis as lines of an
 * export.
 */
import type { Change } from '../../../core/change.js';
import { directImported, identityChanged, messageImported, roomChanged } from '../../../messaging/changes.js';
import type { DirectMessage, Identity, Message, Proof, Room } from '../../../messaging/model.js';
import { globalRoomId } from '../../../messaging/identities/uuid.js';
import { identityKeyTaken, orphan, roomNameTaken } from '../../../transfer/import/conflicts.js';
import type {
  DirectLine,
  IdentityLine,
  MessageLine,
  RoomLine,
} from '../../../transfer/records/record-schemas.js';
import type { RecordPage, RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { markNames } from '../find/reindex/reindex.js';
import { messagesOwner } from '../find/schema.js';
import type { PostgresWriter } from '../write/writer.js';
import type { PostgresIdentities } from '../messaging/identities.js';
import type { RedisInboxes } from '../messaging/redis/inboxes.js';
import type { RedisMessages } from '../messaging/redis/messages.js';
import {
  type RestoreOptions,
  restoreDirect,
  restoreMessage,
  restoreRoomCounters,
  roomTimeMs,
} from '../messaging/redis/restore.js';
import { type PostgresRooms, lostKeyHash } from '../messaging/rooms.js';
import { type TableAccess, type TableKind, TableRecords } from './records.js';

export interface MessagingRecordsOptions {
  sql: PostgresSql;
  restore: RestoreOptions;
  identities: PostgresIdentities;
  rooms: PostgresRooms;
  messages: RedisMessages;
  inboxes: RedisInboxes;
  /** Runs a transaction that also writes its changes to the feed. */
  transact: PostgresWriter['transact'];
  /** Called after imported records are committed. */
  onImported: (change: Change) => void;
}

interface Reads {
  sql: Queryable;
}

interface Writes extends Reads {
  announce(change: Change): void;
}

const firstId = '00000000-0000-0000-0000-000000000000';

export function messagingRecords(options: MessagingRecordsOptions): [type: string, store: RecordStore][] {
  const { sql, transact, onImported } = options;
  const access: TableAccess<Reads, Writes> = {
    reader: { sql },
    transact: (body) =>
      transact((work) =>
        body({
          sql: work.sql,
          announce: (change) => {
            work.announce(change);
            work.afterCommit(() => onImported(change));
          },
        }),
      ),
  };

  return [
    ['messaging.identity', new TableRecords(access, identityTable(options))],
    ['messaging.room', new TableRecords(access, roomTable(options))],
    ['messaging.message', new TableRecords(access, messageTable(options))],
    ['messaging.direct', new TableRecords(access, directTable(options))],
  ];
}

function identityTable({ sql, identities }: MessagingRecordsOptions): TableKind<IdentityLine, Reads, Writes> {
  return {
    page: async (_scope, after, limit) => {
      const ids = await idsAfter(sql, 'agents', after, limit);
      const found = await identities.many(ids);
      const lines = await Promise.all(
        ids.flatMap((id) => found.get(id) ?? []).map((identity) => identityLine(sql, identity)),
      );
      return { records: lines, after: ids.length < limit ? null : (ids.at(-1) ?? null) };
    },
    stored: async ({ sql: on }, { id }) => {
      const identity = await identities.get(id, on);
      return identity === undefined ? undefined : identityLine(on, identity);
    },
    obstacle: async ({ sql: on }, { id, keys }) => {
      const [taken] = await query<{ agent_id: string }>(
        on,
        `SELECT agent_id FROM messaging.agent_keys WHERE public_key = ANY($1::text[]) AND agent_id <> $2
          LIMIT 1`,
        [keys.map(({ publicKey }) => publicKey), id],
      );
      return taken === undefined ? null : identityKeyTaken(id, taken.agent_id);
    },
    put: async ({ sql: on, announce }, line) => {
      await putIdentity(on, line);
      announce(identityChanged(line.id, 'imported'));
    },
  };
}

function roomTable(options: MessagingRecordsOptions): TableKind<RoomLine, Reads, Writes> {
  const { sql, restore, rooms } = options;
  return {
    page: async ({ withSecrets }, after, limit) => {
      const ids = await idsAfter(sql, 'rooms', after, limit);
      const found = await rooms.many(ids);
      const lines = await Promise.all(
        ids.flatMap((id) => found.get(id) ?? []).map((room) => roomLine(options, sql, room, withSecrets)),
      );
      return { records: lines, after: ids.length < limit ? null : (ids.at(-1) ?? null) };
    },
    // Every store has the global room; an import adds to it.
    stored: async ({ sql: on }, { id }) => {
      const room = id === globalRoomId ? undefined : await rooms.get(id, on);
      return room === undefined ? undefined : roomLine(options, on, room, false);
    },
    essence: ({ key_hash: _key_hash, ...rest }) => rest,
    obstacle: async ({ sql: on }, { id, owner, name }) => {
      const holder = owner === null ? undefined : await rooms.own(owner, name, on);
      return holder === undefined || holder.id === id ? null : roomNameTaken(owner, name);
    },
    put: async ({ sql: on, announce }, line) => {
      await putRoom(on, line);
      await restoreRoomCounters(restore, line, line.lastTsMs, line.messageCount);
      announce(roomChanged(line, 'imported'));
    },
  };
}

function messageTable({
  sql,
  restore,
  rooms,
  messages,
}: MessagingRecordsOptions): TableKind<MessageLine, Reads, Writes> {
  return {
    page: (_scope, after, limit) =>
      pageOfPlaces(
        sql,
        'rooms',
        after,
        limit,
        async (roomId, afterMs) => {
          const room = await rooms.get(roomId);
          return room === undefined ? [] : (await messages.read(room, { afterMs, limit })).items;
        },
        (message) => lineOf<MessageLine>({ type: 'messaging.message', ...message }),
      ),
    stored: async (_on, { roomId, tsMs }) => {
      const message = await messages.at(roomId, tsMs);
      return message === undefined
        ? undefined
        : lineOf<MessageLine>({ type: 'messaging.message', ...message });
    },
    obstacle: async ({ sql: on }, { roomId }, coming) =>
      coming?.references === true || (await rooms.get(roomId, on)) !== undefined
        ? null
        : orphan(`The room ${roomId}`),
    put: async ({ sql: on, announce }, line) => {
      const room = await rooms.get(line.roomId, on);
      if (room === undefined) return;
      await restoreMessage(
        restore,
        room,
        withoutType<Message>(line),
        await messages.at(line.roomId, line.tsMs),
      );
      await markNames(on, messagesOwner, [{ kind: 'messages', collection: line.roomId, id: line.id }]);
      announce(messageImported(room, line.id));
    },
  };
}

function directTable({
  sql,
  restore,
  identities,
  inboxes,
}: MessagingRecordsOptions): TableKind<DirectLine, Reads, Writes> {
  return {
    page: (_scope, after, limit) =>
      pageOfPlaces(
        sql,
        'agents',
        after,
        limit,
        async (agentId, afterMs) => (await inboxes.read(agentId, { afterMs, limit })).items,
        (message) => lineOf<DirectLine>({ type: 'messaging.direct', ...message }),
      ),
    stored: async (_on, { to, tsMs }) => {
      const message = await inboxes.at(to, tsMs);
      return message === undefined ? undefined : lineOf<DirectLine>({ type: 'messaging.direct', ...message });
    },
    obstacle: async ({ sql: on }, { to }, coming) =>
      coming?.references === true || (await identities.get(to, on)) !== undefined
        ? null
        : orphan(`The identity ${to}`),
    put: async ({ announce }, line) => {
      await restoreDirect(restore, withoutType<DirectMessage>(line));
      announce(directImported(line));
    },
  };
}

async function idsAfter(
  on: Queryable,
  table: 'agents' | 'rooms',
  after: string | null,
  limit: number,
): Promise<string[]> {
  const comparison = after === null ? '>=' : '>';
  const rows = await query<{ id: string }>(
    on,
    `SELECT id FROM ${table} WHERE id ${comparison} $1 ORDER BY id LIMIT ${limit}`,
    [after ?? firstId],
  );
  return rows.map(({ id }) => id);
}

/**
 * Pages of one room or inbox after the other. A position is an id and the time of the last item of that page.
 */
async function pageOfPlaces<Item extends { tsMs: number }, Line extends { type: string }>(
  on: Queryable,
  table: 'agents' | 'rooms',
  after: string | null,
  limit: number,
  read: (id: string, afterMs: number) => Promise<Item[]>,
  asLine: (item: Item) => Line,
): Promise<RecordPage<Line>> {
  const [place = null, time = '0'] = after?.split(' ') ?? [];
  const [id] = time === 'end' || place === null ? await idsAfter(on, table, place, 1) : [place];
  if (id === undefined) return { records: [], after: null };
  const items = await read(id, time === 'end' ? 0 : Number(time));
  return {
    records: items.map(asLine),
    after: `${id} ${items.length < limit ? 'end' : (items.at(-1)?.tsMs ?? 'end')}`,
  };
}

async function identityLine(on: Queryable, identity: Identity): Promise<IdentityLine> {
  const keys = await query<{ public_key: string; from_ms: string; proof: string | null }>(
    on,
    'SELECT public_key, from_ms, proof FROM messaging.agent_keys WHERE agent_id = $1 ORDER BY from_ms',
    [identity.id],
  );
  return lineOf<IdentityLine>({
    type: 'messaging.identity',
    ...identity,
    // Only rotations and imports write proofs, in this format.
    keys: keys.map(({ public_key, from_ms, proof }) => ({
      publicKey: public_key,
      fromMs: Number(from_ms),
      proof: proof === null ? null : (JSON.parse(proof) as Proof),
    })),
  });
}

async function putIdentity(on: Queryable, line: IdentityLine): Promise<void> {
  const { id, publicKey, name, email, createdAtMs, updatedAtMs, proven, serverKept, link, keys } = line;
  await query(
    on,
    `INSERT INTO agents (id, public_key, name, email, created_at, updated_at)
      VALUES ($1, $2, $3, $4, to_timestamp($5::double precision / 1000),
        to_timestamp($6::double precision / 1000))
      ON CONFLICT (id) DO UPDATE
        SET public_key = excluded.public_key, name = excluded.name, email = excluded.email,
          created_at = excluded.created_at, updated_at = excluded.updated_at`,
    [id, publicKey, name, email, String(createdAtMs), String(updatedAtMs)],
  );
  await query(on, 'DELETE FROM messaging.agent_keys WHERE agent_id = $1', [id]);
  for (const key of keys) {
    await query(
      on,
      `INSERT INTO messaging.agent_keys (public_key, agent_id, from_ms, proof)
        VALUES ($1, $2, $3, $4::text::json)`,
      [key.publicKey, id, String(key.fromMs), key.proof === null ? null : JSON.stringify(key.proof)],
    );
  }
  await query(
    on,
    `INSERT INTO messaging.agent_facts (agent_id, proven, link, server_kept)
      VALUES ($1, $2, $3::text::json, $4)
      ON CONFLICT (agent_id) DO UPDATE
        SET proven = excluded.proven, link = excluded.link, server_kept = excluded.server_kept`,
    [id, proven, link === null ? null : JSON.stringify(link), serverKept],
  );
}

async function roomLine(
  { restore }: MessagingRecordsOptions,
  on: Queryable,
  room: Room,
  withSecrets: boolean,
): Promise<RoomLine> {
  const [facts] = await query<{ key_hash: string | null; last_ts_ms: string | null }>(
    on,
    `SELECT nullif(r.key_hash, $2) AS key_hash, f.last_ts_ms
      FROM rooms r LEFT JOIN messaging.room_facts f ON f.room_id = r.id WHERE r.id = $1`,
    [room.id, lostKeyHash],
  );
  const lastTsMs = Math.max(Number(facts?.last_ts_ms ?? 0), await roomTimeMs(restore, room.id));
  return {
    type: 'messaging.room',
    ...room,
    lastTsMs,
    ...(withSecrets && { key_hash: facts?.key_hash ?? null }),
  };
}

/**
 * A private room keeps its stored key hash if the line has none. Counts of the global room never decrease. A
 * room of a user is private in the seed's table, and its counts are in ours.
 */
async function putRoom(on: Queryable, line: RoomLine): Promise<void> {
  const { id, name, isPrivate, owner, createdBy, createdAtMs, lastTsMs, key_hash } = line;
  const { lastActiveAtMs, messageCount, retentionSeconds, version } = line;
  // A global room without messages was never used, so the values of the line replace its own.
  const merged = (column: string, merge: 'least' | 'greatest'): string =>
    id === globalRoomId
      ? `CASE WHEN r.message_count = 0 THEN excluded.${column}
          ELSE ${merge}(r.${column}, excluded.${column}) END`
      : `excluded.${column}`;
  await query(
    on,
    `INSERT INTO rooms AS r (id, name, is_private, key_hash, created_by, created_at, last_active_at,
        message_count)
      VALUES ($1, $2, $3, $4, (SELECT id FROM agents WHERE id = $5),
        to_timestamp($6::double precision / 1000), to_timestamp($7::double precision / 1000), $8)
      ON CONFLICT (id) DO UPDATE SET
        name = excluded.name, is_private = excluded.is_private,
        key_hash = CASE WHEN excluded.key_hash = $9 THEN coalesce(r.key_hash, $9)
          ELSE excluded.key_hash END,
        created_by = excluded.created_by,
        created_at = ${merged('created_at', 'least')},
        last_active_at = ${merged('last_active_at', 'greatest')},
        message_count = ${merged('message_count', 'greatest')}`,
    [
      id,
      name,
      isPrivate || owner !== null,
      isPrivate ? (key_hash ?? lostKeyHash) : null,
      createdBy,
      String(createdAtMs),
      owner === null ? String(lastActiveAtMs) : '0',
      owner === null ? messageCount : 0,
      lostKeyHash,
    ],
  );
  await query(
    on,
    `INSERT INTO messaging.room_facts AS f
        (room_id, last_ts_ms, owner, name, retention_seconds, message_count, last_active_at, version)
      VALUES ($1, $2, $3, $4, $5, $6, to_timestamp($7::double precision / 1000), $8)
      ON CONFLICT (room_id) DO UPDATE SET last_ts_ms = greatest(f.last_ts_ms, excluded.last_ts_ms),
        owner = excluded.owner, name = excluded.name, retention_seconds = excluded.retention_seconds,
        message_count = excluded.message_count, last_active_at = excluded.last_active_at,
        version = excluded.version`,
    [id, String(lastTsMs), owner, name, retentionSeconds, messageCount, String(lastActiveAtMs), version],
  );
}

/** The types differ, the content does not: a proof is stored as the JSON that a line has. */
function lineOf<Line>(fields: object): Line {
  return fields as Line;
}

function withoutType<Item>({ type: _type, ...fields }: { type: string }): Item {
  return fields as Item;
}
