/** Locks and their last fences in PostgreSQL, as a move takes them. */
import type { LockFenceLine, LockLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { userIdOf } from '../locks/locks.js';
import { type LockRow, deleteLock, insertLock, lockColumns, lockOf, lockTables } from '../locks/rows.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import { type TableAccess, TableRecords } from './records.js';

export interface LockRecordsOptions {
  sql: PostgresSql;
  transact: PostgresWriter['transact'];
}

interface Reads {
  readonly sql: Queryable;
}

interface FenceRow {
  user_id: string;
  user_name: string;
  fence: string;
}

export function lockRecordStores({
  sql,
  transact,
}: LockRecordsOptions): [type: string, store: RecordStore][] {
  const access: TableAccess<Reads, Work> = { reader: { sql }, transact };
  return [
    ['locks.fence', fenceRecords(access, sql)],
    ['locks.lock', lockRecords(access, sql)],
  ];
}

function fenceRecords(access: TableAccess<Reads, Work>, sql: PostgresSql): RecordStore {
  return new TableRecords<LockFenceLine, Reads, Work>(access, {
    page: async (_scope, after, limit) => {
      const rows = await query<FenceRow>(
        sql,
        'SELECT user_id, user_name, fence FROM locks.fences WHERE user_id > $1 ORDER BY user_id LIMIT $2',
        [after ?? '', limit],
      );
      return {
        records: rows.map(fenceLine),
        after: rows.length < limit ? null : (rows.at(-1)?.user_id ?? null),
      };
    },
    stored: async ({ sql: on }, { user }) => {
      const [row] = await query<FenceRow>(
        on,
        'SELECT user_id, user_name, fence FROM locks.fences WHERE user_id = $1',
        [userIdOf(user)],
      );
      return row === undefined ? undefined : fenceLine(row);
    },
    put: async (work, { user, fence }) => {
      await work.rows(
        `INSERT INTO locks.fences (user_id, user_name, fence) VALUES ($1, $2, $3)
            ON CONFLICT (user_id) DO UPDATE SET fence = greatest(fences.fence, excluded.fence)`,
        [userIdOf(user), user, fence],
      );
    },
  });
}

function lockRecords(access: TableAccess<Reads, Work>, sql: PostgresSql): RecordStore {
  return new TableRecords<LockLine, Reads, Work>(access, {
    page: async (_scope, after, limit) => {
      const [user, name] = after === null ? ['', ''] : splitAt(after, userIdLength);
      const rows = await query<LockRow>(
        sql,
        `SELECT l.user_id, ${lockColumns} FROM ${lockTables} WHERE (l.user_id, l.name) > ($1, $2)
            ORDER BY l.user_id, l.name LIMIT $3`,
        [user, name, limit],
      );
      const last = rows.length < limit ? undefined : rows.at(-1);
      return {
        records: rows.map(lockLine),
        after: last === undefined ? null : `${last.user_id}${last.name}`,
      };
    },
    stored: async ({ sql: on }, { user, name }) => {
      const [row] = await query<LockRow>(
        on,
        `SELECT l.user_id, ${lockColumns} FROM ${lockTables} WHERE l.user_id = $1 AND l.name = $2`,
        [userIdOf(user), name],
      );
      return row === undefined ? undefined : lockLine(row);
    },
    put: async (work, { type: _type, ...lock }, isNew) => {
      if (!isNew) deleteLock(work, userIdOf(lock.user), lock.name);
      insertLock(work, userIdOf(lock.user), lock);
    },
  });
}

/** Hex digits of a user id. */
const userIdLength = 64;

function splitAt(text: string, at: number): [string, string] {
  return [text.slice(0, at), text.slice(at)];
}

function fenceLine({ user_name, fence }: FenceRow): LockFenceLine {
  return { type: 'locks.fence', user: user_name, fence: Number(fence) };
}

function lockLine(row: LockRow): LockLine {
  return { type: 'locks.lock', ...lockOf(row) };
}
