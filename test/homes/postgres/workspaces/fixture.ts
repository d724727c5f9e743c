/** Workspaces on a real PostgreSQL, with a clock that the test turns. */
import { openPostgres, query } from '../../../../src/homes/postgres/connection.js';
import {
  type PostgresWorkspaces,
  openPostgresWorkspaces,
} from '../../../../src/homes/postgres/workspaces/workspaces.js';
import type { TableMigration } from '../../../../src/homes/postgres/workspaces/schema.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import { openSecrets } from '../../../../src/secrets/secrets.js';
import { WorkspacesService } from '../../../../src/workspaces/service.js';
import { sharedPostgres } from '../../../servers/shared.js';
import type { Bench, ChangeSeen } from '../../../../src/workspaces/conformance/bench.js';

export interface PostgresBench extends Bench {
  port: PostgresWorkspaces;
  url: URL;
}

const tables = [
  'workspaces.workspaces',
  'workspaces.projects',
  'workspaces.sessions',
  'workspaces.tasks',
  'workspaces.task_dependencies',
  'workspaces.leases',
  'workspaces.bulk_work',
  'workspaces.outbox',
  'kept_answers',
];

export async function openPostgresBench(
  limits: Partial<Limits> = {},
  existing?: URL,
  migrations?: readonly TableMigration[],
  onError?: (error: unknown) => void,
): Promise<PostgresBench> {
  const url = existing ?? new URL((await sharedPostgres()).url);
  const allLimits = limitsWith(limits);
  const secrets = await openSecrets({ dataDir: null });
  const { sealer } = secrets;
  const changes: ChangeSeen[] = [];
  let offsetMs = 0;
  const port = await openPostgresWorkspaces(url, {
    limits: allLimits,
    sealer,
    clock: () => Date.now() + offsetMs,
    sweepIntervalMs: 3_600_000,
    checkFence: () => undefined,
    ...(migrations && { migrations }),
    ...(onError && { onError }),
    announce: async (announced) => {
      changes.push(...announced.map(({ kind, id, user, facts = {} }) => ({ kind, id, user, facts })));
    },
  });
  secrets.addHolder({ name: 'workspaces', reseal: (onProgress) => port.reseal(onProgress) });
  const sql = await openPostgres(url, { connectionsMax: 1 });
  return {
    url,
    port,
    writer: port.writer,
    sealer,
    service: new WorkspacesService({ writer: port.writer, port, limits: allLimits, sealer }),
    rekey: (onProgress) => secrets.rekey(onProgress),
    pass: (seconds) => {
      offsetMs += seconds * 1_000;
    },
    sweep: async () => {
      await port.sweep();
      await port.idle();
    },
    changes: async () => changes,
    dump: async () => {
      const rows = await Promise.all(
        tables.map((table) =>
          query<{ row: string }>(sql, `SELECT row_to_json(t)::text AS row FROM ${table} t`),
        ),
      );
      return rows
        .flat()
        .map(({ row }) => row)
        .join('\n');
    },
    close: async () => {
      await port.close();
      await sql.end();
    },
  };
}
