/** Converts the configuration into the options of `openStoa`. */
import { resolve } from 'node:path';
import type { Config } from '../../core/settings/config.js';
import type { StoaOptions } from '../../index.js';
import type { BackupSchedule } from '../../homes/directory/kernel/backup/schedule.js';
import { isPostgres } from '../../core/settings/settings.js';

export function stoaOptions(config: Config, onError?: StoaOptions['onError']): StoaOptions {
  return {
    data: config.data,
    engine: config.engine ?? undefined,
    shards: config.shards ?? undefined,
    datastore: config.datastore ?? config.backend,
    storeConfig: {
      sync_writes: config.syncWrites,
      block_cache_bytes: config.blockCacheBytes,
    },
    // Only PostgreSQL supports workspaces; the other database servers support only the data store.
    workspaces: config.workspaces ?? (isPostgres(config.backend) ? config.backend : null),
    secretKeys: config.secretKeys,
    limits: config.limits,
    messaging: messagingUrl(config),
    redis: config.redis,
    messagingSettings: {
      rateLimitAllow: config.rateLimitAllow,
      trustedProxies: config.trustedProxies,
      autoBlock: config.autoBlock,
      adminAgent: config.adminAgent,
      requireMessageSignatures: config.requireMessageSignatures,
    },
    onError,
  };
}

/** Only the server runs the schedule: a single command ends before anything is due. */
export function scheduleOf(config: Config): BackupSchedule | undefined {
  if (config.backupDirectory === null) return undefined;
  return {
    directory: resolve(config.backupDirectory),
    fullEveryMs: config.backupFullHours * 3_600_000,
    incrementalEveryMs: config.backupIncrementalMinutes * 60_000,
    chainsKept: config.backupChainsKept,
  };
}

/** `--backend` is used for messaging if it is PostgreSQL and Redis is configured. */
function messagingUrl({ messaging, backend, redis }: Config): string | null {
  return messaging ?? (redis !== null && isPostgres(backend) ? backend : null);
}
