/**
 * The part of a move that PostgreSQL with Redis implements. The mark of a move is a row of `cluster.facts`.
 */
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { withoutPassword } from '../../../core/text/printable-url.js';
import type { Sealer } from '../../../secrets/sealer.js';
import { type HomeMove, type MoveMark, refusePartOfMove } from '../../../transfer/move/port.js';
import { clearFact, readFact, writeFact } from '../cluster/facts.js';
import type { Servers } from '../cluster/servers.js';
import { lockNumber } from '../database/advisory-locks.js';
import { type PostgresSql, query } from '../database/connection.js';
import { closePostgres, openPostgres } from '../database/pool.js';
import { transaction } from '../database/transaction.js';
import type { PostgresWriter } from '../write/writer.js';
import { lockRecordStores } from './locks.js';
import { agentRecordStore } from './namespace-agents.js';
import { settingsRecordStore } from './namespace-settings.js';
import { unexportedRecords } from './unexported.js';

export interface PostgresMoveOptions {
  readonly sql: PostgresSql;
  readonly writer: PostgresWriter;
  readonly sealer: Sealer;
  readonly servers: Servers;
}

export function postgresMove(options: PostgresMoveOptions): HomeMove {
  const { sql, writer, sealer, servers } = options;
  return {
    mark: factMark(sql),
    records: () => [
      ...unexportedRecords({ sql, sealer, transact: (body) => writer.transact(body) }),
      ...lockRecordStores({ sql, transact: (body) => writer.transact(body) }),
      agentRecordStore(sql, (body) => writer.transact(body)),
      settingsRecordStore(sql, (body) => writer.transact(body)),
    ],
    obstacles: async () => {
      const [left] = await query<{ messages: string; tasks: string }>(
        sql,
        `SELECT (SELECT count(*) FROM commit_outbox WHERE state = 'waiting') AS messages,
          (SELECT count(*) FROM workspaces.bulk_work) AS tasks`,
      );
      return [
        ...(await servers.live()).map(
          ({ url, host, process_id }) => `The server ${url ?? `${host} process ${process_id}`} is running.`,
        ),
        ...(left?.messages === '0'
          ? []
          : [`${left?.messages ?? 0} messages of commits are not delivered yet.`]),
        ...(left?.tasks === '0'
          ? []
          : [`${left?.tasks ?? 0} deletions and endings of tasks are not finished yet.`]),
      ];
    },
    extent: async () => {
      // Numbering moves rows from one table to the other, and does not change the sum.
      const [row] = await query<{ extent: string }>(
        sql,
        `SELECT epoch || '-' || last_seq + (SELECT count(*) FROM feed.incoming) AS extent FROM feed.extent`,
      );
      return row?.extent ?? '';
    },
  };
}

/**
 * Refuses servers and a second move on this database until the returned function is called or the process
 * ends.
 */
export async function holdDatabase(url: string, limits: Limits): Promise<() => Promise<void>> {
  const sql = await openPostgres(new URL(url), { limits, connectionsMax: 1, keepsSessions: true });
  const [lock] = await query<{ taken: boolean }>(
    sql,
    `SELECT pg_try_advisory_lock(${lockNumber('move')}) AS taken`,
  );
  if (lock?.taken === true) return () => closePostgres(sql, 5);
  await closePostgres(sql, 5);
  throw underMove(url);
}

/** A server does not start where a move reads or writes, or where one was interrupted. */
export async function refuseDuringMove(sql: PostgresSql, url: string): Promise<void> {
  // Freed again at the end of the statement. Servers that start at the same time share it.
  const [lock] = await query<{ is_free: boolean }>(
    sql,
    `SELECT pg_try_advisory_xact_lock_shared(${lockNumber('move')}) AS is_free`,
  );
  if (lock?.is_free !== true) throw underMove(url);
  await refusePartOfMove(factMark(sql), withoutPassword(url), undefined);
}

function underMove(url: string): StoaError {
  return new StoaError('locked', `A move from or into ${withoutPassword(url)} is running.`, {
    fix: 'Wait until the move ends, or stop it.',
  });
}

export function factMark(sql: PostgresSql): MoveMark {
  return {
    read: () => readFact(sql, 'move'),
    write: (text) => writeFact(sql, 'move', text),
    // Followers of what was here before get `resync`.
    clear: () =>
      transaction(sql, async (tx) => {
        await clearFact(tx, 'move');
        await query(tx, 'UPDATE feed.extent SET epoch = feed.new_epoch()');
      }),
  };
}
