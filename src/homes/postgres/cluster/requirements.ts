/** What PostgreSQL and Redis must be for a Stoa to keep its promises there. Checked before anything is made. */
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import { type PostgresSql, closePostgres, openPostgres, query } from '../connection.js';
import { type RedisConnection, closeRedis, openRedis, withRedis } from '../messaging/redis.js';

const postgresVersionMin = 16;
const redisVersionMin = 7;

/** Asks both databases on connections of its own, so that a refusal leaves nothing behind. */
export async function checkRequirements(
  { postgres, redis }: { readonly postgres: string; readonly redis: string },
  limits: Limits,
  onError: (error: unknown, about: string) => void,
): Promise<void> {
  const sql = await openPostgres(new URL(postgres), { limits, connectionsMax: 1 });
  try {
    await checkPostgres(sql);
  } finally {
    await closePostgres(sql, 5);
  }
  const connection = await openRedis(redis, onError);
  try {
    await checkRedis(connection);
  } finally {
    closeRedis(connection);
  }
}

export async function checkPostgres(sql: PostgresSql): Promise<void> {
  const [server] = await query<{ version: string; standby: boolean; read_only: string }>(
    sql,
    `SELECT current_setting('server_version_num') AS version, pg_is_in_recovery() AS standby,
      current_setting('default_transaction_read_only') AS read_only`,
  );
  const version = Math.floor(Number(server?.version ?? 0) / 10_000);
  if (version < postgresVersionMin)
    throw new StoaError(
      'unsupported',
      `The database is PostgreSQL ${version}. Stoa needs ${postgresVersionMin} or newer.`,
      { fix: 'Upgrade the server, or use another one.' },
    );
  if (server?.standby === true || server?.read_only === 'on')
    throw new StoaError('unsupported', 'The database is read-only: a standby, or set to read-only.', {
      fix: 'Use the URL of the primary server.',
    });
}

/** With any other policy than `noeviction` a full Redis would drop messages that were acknowledged. */
export async function checkRedis({ commands, isCluster }: RedisConnection): Promise<void> {
  const info = await withRedis(() => commands.info('server'));
  const version = /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown';
  if (Number(version.split('.')[0]) < redisVersionMin)
    throw new StoaError(
      'unsupported',
      `The Redis server is ${version}. Stoa needs ${redisVersionMin} or newer.`,
      {
        fix: 'Upgrade the server, or use another one.',
      },
    );
  const policy = /maxmemory_policy:(\S+)/.exec(await withRedis(() => commands.info('memory')))?.[1];
  if (policy !== undefined && policy !== 'noeviction')
    throw new StoaError(
      'unsupported',
      `Redis has the maxmemory-policy "${policy}"${isCluster ? ' on at least one node' : ''}. With it a full Redis drops messages.`,
      { fix: 'Set "maxmemory-policy noeviction" on every node.' },
    );
}
