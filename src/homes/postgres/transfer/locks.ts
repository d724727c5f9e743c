/** Locks and their last fences in PostgreSQL, as a move takes them. */
import type { LockFenceLine, LockLine } from '../../../transfer/move/lines.js';
import type { RecordStore } from '../../../transfer/port.js';
import { type PostgresSql, type Queryable, query } from '../database/connection.js';
import { userIdOf } from '../locks/locks.js';
import { type LockRow, deleteLock, insertLock, lockColumns, lockOf, lockTables } from '../locks/rows.js';
import type { Work } from '../write/work.js';
import type { PostgresWriter } from '../write/writer.js';
import { type SqlReader, type TableKind, TableRecords, pageOfRows, writerAccess } from './records.js';

export interface LockRecordsOptions {
  sql: PostgresSql;
  transact: PostgresWriter['transact'];
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
  const access = writerAccess(sql, transact);
  return [
    ['locks.fence', new TableRecords(access, fenceTable(sql))],
    ['locks.lock', new TableRecords(access, lockTable(sql))],
  ];
}

const fences = { columns: 'user_id, user_name, fence', from: 'locks.fences', key: ['user_id'] };
const locks = { columns: `l.user_id, ${lockColumns}`, from: lockTables, key: ['l.user_id', 'l.name'] };

function fenceTable(sql: Queryable): TableKind<LockFenceLine, SqlReader, Work> {
  return {
    page: (_scope, after, limit) => pageOfRows(sql, fences, fenceLine, after, limit),
    stored: async ({ sql: on }, { user }) => {
      const [row] = await query<FenceRow>(
        on,
        `SELECT ${fences.columns} FROM locks.fences WHERE user_id = $1`,
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
  };
}

function lockTable(sql: Queryable): TableKind<LockLine, SqlReader, Work> {
  return {
    page: (_scope, after, limit) => pageOfRows(sql, locks, lockLine, after, limit),
    stored: async ({ sql: on }, { user, name }) => {
      const [row] = await query<LockRow>(
        on,
        `SELECT ${locks.columns} FROM ${lockTables} WHERE l.user_id = $1 AND l.name = $2`,
        [userIdOf(user), name],
      );
      return row === undefined ? undefined : lockLine(row);
    },
    put: async (work, { type: _type, ...lock }, isNew) => {
      if (!isNew) deleteLock(work, userIdOf(lock.user), lock.name);
      insertLock(work, userIdOf(lock.user), lock);
    },
  };
}

function fenceLine({ user_name, fence }: FenceRow): LockFenceLine {
  return { type: 'locks.fence', user: user_name, fence: Number(fence) };
}

function lockLine(row: LockRow): LockLine {
  return { type: 'locks.lock', ...lockOf(row) };
}
