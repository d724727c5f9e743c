/** Workspaces on a real PostgreSQL, with a clock that the test controls. */
import type { PostgresBase } from '../../../../src/homes/postgres/base.js';
import { knownSteps } from '../../../../src/homes/postgres/cluster/tables.js';
import { query } from '../../../../src/homes/postgres/database/connection.js';
import { openPostgresWorkspaces } from '../../../../src/homes/postgres/workspaces/open.js';
import type { PostgresWorkspaces } from '../../../../src/homes/postgres/workspaces/workspaces.js';
import type { TableMigration } from '../../../../src/homes/postgres/workspaces/schema.js';
import { messageOf } from '../../../../src/core/errors.js';
import { type Limits, limitsWith } from '../../../../src/core/settings/limits.js';
import { openSecrets } from '../../../../src/secrets/secrets.js';
import { WorkspacesService } from '../../../../src/workspaces/service.js';
import { anyUser, openBase } from '../open-domains.js';
import { emptyPostgres, sharedPostgres } from '../../../servers/shared.js';
import type { Bench, ChangeSeen } from '../../../../src/workspaces/conformance/bench.js';

export interface PostgresBench extends Bench {
  port: PostgresWorkspaces;
  base: PostgresBase;
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
  'workspaces.reseals',
  'kept_answers',
];

function warn(error: unknown, about: string): void {
  process.emitWarning(`${about}: ${messageOf(error)}`);
}

export async function openPostgresBench(
  limits: Partial<Limits> = {},
  existing?: URL,
  migrations?: readonly TableMigration[],
  onError: (error: unknown, about: string) => void = warn,
): Promise<PostgresBench> {
  const made = migrations === undefined ? sharedPostgres : emptyPostgres;
  const url = existing ?? new URL((await made()).url);
  const allLimits = limitsWith(limits);
  const secrets = await openSecrets({ dataDir: null });
  const { sealer } = secrets;
  let offsetMs = 0;
  const tableSteps = migrations && new Map([...knownSteps, ['workspaces', migrations.length] as const]);
  const base = await openBase(url, { limits: allLimits, onError, skewMs: () => offsetMs, tableSteps });
  const { sql, writer, clock, feed } = base;
  const users = anyUser();
  let port: PostgresWorkspaces;
  try {
    port = await openPostgresWorkspaces(sql, writer, {
      limits: allLimits,
      clock,
      sealer,
      users,
      onError,
      sweepIntervalMs: 3_600_000,
      migrations,
    });
  } catch (error) {
    await base.close();
    throw error;
  }
  base.limitStatements();
  secrets.addHolder({ name: 'workspaces', reseal: (onProgress) => port.reseal(onProgress) });
  return {
    url,
    base,
    port,
    writer,
    sealer,
    service: new WorkspacesService({ writer, port, limits: allLimits, sealer }),
    rekey: (onProgress) => secrets.rekey(onProgress),
    pass: (seconds) => {
      offsetMs += seconds * 1_000;
    },
    sweep: async () => {
      await port.sweep();
      await port.idle();
    },
    changes: async () => {
      await feed.newest();
      const { commits } = await feed.read({});
      return commits.flatMap(({ changes }) =>
        changes.map(({ kind, id, user, facts = {} }): ChangeSeen => ({ kind, id, user, facts })),
      );
    },
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
      await base.close();
    },
  };
}
