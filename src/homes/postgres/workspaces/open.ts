/** Opens workspaces on PostgreSQL. */
import type { Limits } from '../../../core/settings/limits.js';
import type { Sealer } from '../../../secrets/sealer.js';
import type { PostgresSql } from '../database/connection.js';
import type { DatabaseClock } from '../database/database-clock.js';
import type { KnownUsers } from '../known-users.js';
import type { PostgresWriter } from '../write/writer.js';
import { migrate } from '../database/migrate.js';
import { type TableMigration, stepsOf, workspacesMigrations, workspacesTables } from './schema.js';
import { PostgresWorkspaces } from './workspaces.js';

export interface PostgresWorkspacesOptions {
  readonly limits: Limits;
  readonly clock: DatabaseClock;
  readonly sealer: Sealer;
  readonly users: KnownUsers;
  /** Errors of background work. */
  readonly onError: (error: unknown, about: string) => void;
  readonly sweepIntervalMs?: number | undefined;
  /** A move sweeps nothing, and no claim waits for its tasks. */
  readonly isMoved?: boolean | undefined;
  /** Tests only: replaces the table versions of this program. */
  readonly migrations?: readonly TableMigration[] | undefined;
}

/** Creates missing tables, listens for ready tasks, and starts to sweep. */
export async function openPostgresWorkspaces(
  sql: PostgresSql,
  writer: PostgresWriter,
  options: PostgresWorkspacesOptions,
): Promise<PostgresWorkspaces> {
  const migrations = stepsOf(options.migrations ?? workspacesMigrations);
  await migrate(sql, { ...workspacesTables, migrations }, options.limits.migrationStepRowsMax);
  const port = new PostgresWorkspaces(sql, writer, options);
  if (options.isMoved !== true) await port.start();
  return port;
}
