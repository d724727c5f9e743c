/** What all domains of the PostgreSQL home share: one pool, one feed, one clock and one writer. */
import type { OnCall } from '../../core/timed-call.js';
import { closeAll } from '../../core/close-all.js';
import type { Limits } from '../../core/settings/limits.js';
import { type PostgresSql } from './database/connection.js';
import { limitStatements, closePostgres, openPostgres } from './database/pool.js';
import { DatabaseClock } from './database/database-clock.js';
import { documentsOf } from './datastore/counts.js';
import { dataTables } from './datastore/sql.js';
import { PostgresFeed } from './feed/feed.js';
import { findTables } from './find/schema.js';
import { migrate } from './database/migrate.js';
import type { CallerAgents, CheckFence } from './write/work.js';
import { knownSteps } from './cluster/tables.js';
import { TablesWatch } from './database/tables-watch.js';
import { PostgresWriter } from './write/writer.js';

export interface PostgresBaseOptions {
  readonly limits: Limits;
  readonly checkFence: CheckFence;
  readonly agents?: CallerAgents | null | undefined;
  readonly onError: (error: unknown, about: string) => void;
  readonly onCall?: OnCall | undefined;
  readonly connectionsMax?: number | undefined;
  /** Nothing is swept, trimmed or numbered. */
  readonly isOnlyRead?: boolean | undefined;
  /** Tests only: replaces the migration steps that this program knows. */
  readonly tableSteps?: ReadonlyMap<string, number> | undefined;
  /** Added to the database's clock; tests turn it. */
  readonly skewMs?: (() => number) | undefined;
}

export interface PostgresBase {
  readonly sql: PostgresSql;
  /** One connection for signs of life: a server whose pool is busy is alive. */
  readonly beats: PostgresSql;
  readonly clock: DatabaseClock;
  readonly feed: PostgresFeed;
  readonly writer: PostgresWriter;
  readonly tables: TablesWatch;
  /** Call it once the tables of all domains are made: from then on statements are short. */
  limitStatements(): void;
  /** After everything that uses it. */
  close(): Promise<void>;
}

/** Two, so that a statement which hangs with its connection does not delay the others. */
const beatConnections = 2;

/** Connects, and creates missing tables of the feed and of kept answers. */
export async function openPostgresBase(url: URL, options: PostgresBaseOptions): Promise<PostgresBase> {
  const { limits, checkFence, agents, onError, onCall, connectionsMax, skewMs, tableSteps } = options;
  const isOnlyRead = options.isOnlyRead === true;
  const sql = await openPostgres(url, {
    idleTransactionSecondsMax: limits.commitIdleSecondsMax,
    limits,
    ...(onCall && { onCall }),
    ...(connectionsMax !== undefined && { connectionsMax }),
  });
  const beats = await openPostgres(url, { limits, connectionsMax: beatConnections });
  const clock = new DatabaseClock(beats, skewMs);
  const feed = new PostgresFeed({ sql, limits, onError });
  const onCommitted = (): void => feed.committed();
  const tables = new TablesWatch({ sql: beats, known: tableSteps ?? knownSteps, onError });
  const writer = new PostgresWriter({
    sql,
    limits,
    clock,
    checkFence,
    agents,
    documentsOf,
    checkTables: () => tables.check(),
    onCommitted,
    onError,
  });
  const close = (): Promise<void> =>
    closeAll([
      () => tables.close(),
      () => writer.close(),
      () => feed.close(),
      () => closePostgres(sql, 5),
      () => closePostgres(beats, 5),
    ]);
  const limitAll = (): void => {
    limitStatements(sql, limits);
    limitStatements(beats, {
      ...limits,
      // 0 means no limit for the others.
      statementSecondsMax: Math.min(limits.statementSecondsMax || Infinity, limits.healthSecondsMax),
    });
  };
  try {
    await feed.open(isOnlyRead);
    // Answers that are kept count together with documents, whether those are here or in a store beside the
    // home.
    await migrate(sql, dataTables);
    await migrate(sql, findTables);
    await writer.open(isOnlyRead);
    if (!isOnlyRead) tables.start();
  } catch (error) {
    await close();
    throw error;
  }
  return { sql, beats, clock, feed, writer, tables, limitStatements: limitAll, close };
}
