/**
 * What PostgreSQL and Redis must be for a Stoa to keep its promises there. Checked before anything is made.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { StoaError } from '../../../core/errors.js';
import type { Limits } from '../../../core/settings/limits.js';
import type { KeyRing } from '../../../secrets/key-ring.js';
import type { MoveRole } from '../../../transfer/move/port.js';
import { type ClockReading, clockSql, offsetOf } from '../database/database-clock.js';
import { type PostgresSql, query } from '../database/connection.js';
import { closePostgres, openPostgres } from '../database/pool.js';
import {
  type RedisConnection,
  closeRedis,
  openRedis,
  redisOwner,
  withRedis,
} from '../messaging/redis/connection.js';
import { requireKeys } from './key-checks.js';
import { tableExists, knownStore, tablesPlan } from './tables.js';

const postgresVersionMin = 16;
const redisVersionMin = 7;
/** Times go by the database's clock, which a server estimates by its own. A larger difference is a fault of a clock. */
export const clockDifferenceMsMax = 30_000;
const retryMs = 500;

export interface Requirements {
  readonly postgres: string;
  readonly redis: string;
  readonly ring: KeyRing;
  readonly limits: Limits;
  readonly onError: (error: unknown, about: string) => void;
  /** A source of a move may be set to read-only. */
  readonly move?: MoveRole | undefined;
}

/**
 * Throws if this PostgreSQL or Redis cannot be used. It changes nothing and has its own connections. Returns
 * what a start would add, in sentences.
 */
export async function checkRequirements(given: Requirements): Promise<string[]> {
  const untilMs = performance.now() + given.limits.backendStartSecondsMax * 1_000;
  const sql = await openPostgres(new URL(given.postgres), { limits: given.limits, connectionsMax: 1 });
  try {
    await whenThere('PostgreSQL', untilMs, given, () => checkPostgres(sql, given.move));
    const plan = await tablesPlan(sql);
    if (await tableExists(sql, 'cluster.secret_keys')) await requireKeys(sql, given.ring);
    const redis = await whenThere('Redis', untilMs, given, () => openRedis(given.redis, () => undefined));
    try {
      await checkRedis(redis);
      return [...plan, ...(await redisPlan(redis, await knownStore(sql)))];
    } finally {
      closeRedis(redis);
    }
  } finally {
    await closePostgres(sql, 5);
  }
}

/** A server may start before its databases do: it waits, and says so once. */
async function whenThere<T>(
  database: string,
  untilMs: number,
  { limits, onError }: Requirements,
  ask: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await ask();
    } catch (error) {
      const isAway = error instanceof StoaError && error.code === 'backend_unavailable';
      if (!isAway || performance.now() + retryMs > untilMs) throw error;
      const seconds = limits.backendStartSecondsMax;
      if (attempt === 1)
        onError(error, `waiting up to ${seconds} s for ${database} (backendStartSecondsMax)`);
      await sleep(retryMs);
    }
  }
}

async function checkPostgres(sql: PostgresSql, move: MoveRole | undefined): Promise<void> {
  const sentMs = Date.now();
  const [server] = await query<{
    version: string;
    standby: boolean;
    read_only: string;
    isolation: string;
    now_ms: string;
  }>(
    sql,
    `SELECT current_setting('server_version_num') AS version, pg_is_in_recovery() AS standby,
      current_setting('default_transaction_read_only') AS read_only,
      current_setting('default_transaction_isolation') AS isolation,
      ${clockSql} AS now_ms`,
  );
  const version = Math.floor(Number(server?.version ?? 0) / 10_000);
  if (version < postgresVersionMin)
    throw new StoaError(
      'unsupported',
      `The database is PostgreSQL ${version}. Stoa needs ${postgresVersionMin} or newer.`,
      { fix: 'Upgrade the server, or use another one.' },
    );
  if (server?.standby === true || (server?.read_only === 'on' && move !== 'from'))
    throw new StoaError('unsupported', 'The database is read-only: a standby, or set to read-only.', {
      fix: 'Use the URL of the primary server.',
    });
  // The server asks for it when it connects, but a pooler may ignore that.
  if (server?.isolation !== 'read committed')
    throw new StoaError(
      'invalid_config',
      `Transactions in PostgreSQL are "${server?.isolation}" here; expected "read committed".`,
      {
        fix: "Change the role of Stoa: ALTER ROLE … SET default_transaction_isolation = 'read committed'.",
      },
    );
  checkClock({ sentMs, databaseMs: Number(server?.now_ms), answeredMs: Date.now() });
}

function checkClock(reading: ClockReading): void {
  const aheadMs = -offsetOf(reading);
  if (Math.abs(aheadMs) <= clockDifferenceMsMax) return;
  throw new StoaError(
    'invalid_config',
    `The clock of this server is ${Math.round(Math.abs(aheadMs) / 1_000)} s ` +
      `${aheadMs > 0 ? 'ahead of' : 'behind'} the database's. At most ${clockDifferenceMsMax / 1_000} s ` +
      'are allowed (clockDifferenceMsMax).',
    { fix: 'Set the clocks of both machines with NTP.' },
  );
}

/** With any other policy than `noeviction` a full Redis would drop messages that were acknowledged. */
async function checkRedis({ commands, isCluster }: RedisConnection): Promise<void> {
  const info = await withRedis(() => commands.info('server'));
  const version = /redis_version:(\S+)/.exec(info)?.[1] ?? 'unknown';
  if (Number(version.split('.')[0]) < redisVersionMin)
    throw new StoaError(
      'unsupported',
      `The Redis server is ${version}. Stoa needs ${redisVersionMin} or newer.`,
      { fix: 'Upgrade the server, or use another one.' },
    );
  const policy = /maxmemory_policy:(\S+)/.exec(await withRedis(() => commands.info('memory')))?.[1];
  if (policy !== undefined && policy !== 'noeviction')
    throw new StoaError(
      'unsupported',
      `Redis has the maxmemory-policy "${policy}"${isCluster ? ' on at least one node' : ''}. With it ` +
        'a full Redis drops messages.',
      { fix: 'Set "maxmemory-policy noeviction" on every node.' },
    );
}

async function redisPlan(redis: RedisConnection, storeId: string | undefined): Promise<string[]> {
  const owner = await redisOwner(redis, storeId);
  if (owner !== null) return [];
  const keys = await withRedis(() => redis.commands.dbsize());
  return [
    ...(keys === 0 ? [] : [`Keep the ${keys} keys in Redis.`]),
    'Set the key stoa:store in Redis to the name of this Stoa.',
  ];
}
