/** Checks a database before a move opens a home in it. Changes nothing. */
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { withoutPassword } from '../../../core/text/printable-url.js';
import type { MoveRole } from '../../../transfer/move/port.js';
import { query } from '../database/connection.js';
import { closePostgres, openPostgres } from '../database/pool.js';
import { planPostgresHome } from '../open.js';

export interface PostgresPlace {
  readonly postgres: string;
  readonly redis: string;
  readonly secretKeys: string | undefined;
}

/**
 * Returns true if the database has the tables of a Stoa. Throws if it has tables of another program, or if a
 * server could not start on it.
 */
export async function hasStoa(
  place: PostgresPlace,
  limits: Limits,
  onError: (error: unknown, about: string) => void,
  move: MoveRole,
): Promise<boolean> {
  await planPostgresHome({ ...place, limits, onError, move });
  const sql = await openPostgres(new URL(place.postgres), { limits, connectionsMax: 1 });
  try {
    const [found] = await query<{ stoa: boolean; others: boolean }>(
      sql,
      `SELECT to_regclass('cluster.facts') IS NOT NULL AS stoa,
        -- Tables without this one are not of a move that was ended while it made them.
        to_regclass('stoa_migrations') IS NULL
          AND coalesce(to_regclass('agents'), to_regclass('rooms'),
            to_regclass('agent_data_store')) IS NOT NULL AS others`,
    );
    if (found?.stoa === true) return true;
    if (found?.others === true)
      throw new StoaError(
        'conflict',
        `${withoutPassword(place.postgres)} has tables of another program and no tables of Stoa.`,
        { fix: 'Use an empty database. To take over the database of an AICQ server, start Stoa on it.' },
      );
    return false;
  } finally {
    await closePostgres(sql, 5);
  }
}
