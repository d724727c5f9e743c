/**
 * The part of a move that PostgreSQL with Redis implements. The mark of a move is a row of `cluster.facts`.
 */
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { withoutPassword } from '../../../core/text/printable-url.js';
import type { Sealer } from '../../../secrets/sealer.js';
import type { HomeMove, MoveMark } from '../../../transfer/move/port.js';
import { clearFact, readFact, writeFact } from '../cluster/facts.js';
import type { Servers } from '../cluster/servers.js';
import { lockNumber } from '../database/advisory-locks.js';
import { type PostgresSql, closePostgres, openPostgres, query } from '../database/connection.js';
import type { PostgresMessaging } from '../messaging/messaging.js';
import type { PostgresWorkspaces } from '../workspaces/workspaces.js';
import type { PostgresWriter } from '../write/writer.js';
import { unexportedRecords } from './unexported.js';

export interface PostgresMoveOptions {
  readonly sql: PostgresSql;
  readonly writer: PostgresWriter;
  readonly sealer: Sealer;
  readonly servers: Servers;
  readonly messaging: PostgresMessaging;
  readonly workspaces: PostgresWorkspaces;
}

export function postgresMove(options: PostgresMoveOptions): HomeMove {
  const { sql, writer, sealer, servers, messaging, workspaces } = options;
  return {
    mark: factMark(sql),
    records: () => unexportedRecords({ sql, sealer, transact: (body) => writer.transact(body) }),
    obstacles: async () => {
      // Finishes work that stopped servers left over.
      await messaging.moveFeedOutbox();
      await workspaces.idle();
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
  };
}

/** Refuses a second move into the database until the returned function is called or the process ends. */
export async function holdDatabase(url: string, limits: Limits): Promise<() => Promise<void>> {
  const sql = await openPostgres(new URL(url), { limits, connectionsMax: 1, keepsSessions: true });
  const [lock] = await query<{ taken: boolean }>(
    sql,
    `SELECT pg_try_advisory_lock(${lockNumber('move')}) AS taken`,
  );
  if (lock?.taken === true) return () => closePostgres(sql, 5);
  await closePostgres(sql, 5);
  throw new StoaError('locked', `Another move into ${withoutPassword(url)} is running.`, {
    fix: 'Wait for it to end, or stop it.',
  });
}

export function factMark(sql: PostgresSql): MoveMark {
  return {
    read: () => readFact(sql, 'move'),
    write: (text) => writeFact(sql, 'move', text),
    clear: () => clearFact(sql, 'move'),
  };
}
