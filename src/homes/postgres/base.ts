/** What all domains of the PostgreSQL home share: one pool, one feed, one clock and one writer. */
import type { Limits } from '../../core/settings/limits.js';
import {
  type OnCall,
  type PostgresSql,
  limitStatements,
  closePostgres,
  openPostgres,
} from './database/connection.js';
import { DatabaseClock } from './database/database-clock.js';
import { documentsOf } from './datastore/counts.js';
import { dataMigrations } from './datastore/sql.js';
import { PostgresFeed } from './feed/feed.js';
import { migrate } from './database/migrate.js';
import type { CheckFence } from './write/work.js';
import { knownSteps } from './cluster/tables.js';
import { TablesWatch } from './database/tables-watch.js';
import { PostgresWriter } from './write/writer.js';

export interface PostgresBaseOptions {
  readonly limits: Limits;
  readonly checkFence: CheckFence;
  readonly onError: (error: unknown, about: string) => void;
  readonly onCall?: OnCall | undefined;
  readonly connectionsMax?: number | undefined;
  /** Tests only: replaces the migration steps that this program knows. */
  readonly tableSteps?: ReadonlyMap<string, number> | undefined;
  /** Added to the database's clock; tests turn it. */
  readonly skewMs?: (() => number) | undefined;
}

export interface PostgresBase {
  readonly sql: PostgresSql;
  readonly clock: DatabaseClock;
  readonly feed: PostgresFeed;
  readonly writer: PostgresWriter;
  readonly tables: TablesWatch;
  /** Call it once the tables of all domains are made: from then on statements are short. */
  limitStatements(): void;
  /** After everything that uses it. */
  close(): Promise<void>;
}

/** Connects, and makes the tables of the feed and of kept answers where they are missing. */
export async function openPostgresBase(
  url: URL,
  { limits, checkFence, onError, onCall, connectionsMax, skewMs, tableSteps }: PostgresBaseOptions,
): Promise<PostgresBase> {
  const sql = await openPostgres(url, {
    idleTransactionSecondsMax: limits.commitIdleSecondsMax,
    limits,
    ...(onCall && { onCall }),
    ...(connectionsMax !== undefined && { connectionsMax }),
  });
  const clock = new DatabaseClock(sql, skewMs);
  const feed = new PostgresFeed({ sql, limits, onError });
  const onCommitted = (): void => feed.committed();
  const tables = new TablesWatch({ sql, known: tableSteps ?? knownSteps, onError });
  const writer = new PostgresWriter({
    sql,
    limits,
    clock,
    checkFence,
    documentsOf,
    checkTables: () => tables.check(),
    onCommitted,
    onError,
  });
  const close = async (): Promise<void> => {
    await tables.close();
    await writer.close();
    await feed.close();
    await closePostgres(sql, 5);
  };
  try {
    await feed.open();
    // Answers that are kept count together with documents, whether those are here or in a store beside the
    // home.
    await migrate(sql, 'datastore', dataMigrations);
    await writer.open();
    tables.start();
  } catch (error) {
    await close();
    throw error;
  }
  return { sql, clock, feed, writer, tables, limitStatements: () => limitStatements(sql, limits), close };
}
