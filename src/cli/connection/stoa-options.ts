/** Converts the configuration into the options of `openStoa`. */
import { resolve } from 'node:path';
import type { Config } from '../../core/settings/config.js';
import type { StoaOptions } from '../../index.js';
import type { BackupSchedule } from '../../homes/directory/kernel/backup/schedule.js';

export function stoaOptions(config: Config, onError?: StoaOptions['onError']): StoaOptions {
  return {
    data: config.data,
    engine: config.engine ?? undefined,
    shards: config.shards ?? undefined,
    postgres: config.postgres,
    redis: config.redis,
    datastore: config.datastore,
    storeConfig: {
      sync_writes: config.syncWrites,
      block_cache_bytes: config.blockCacheBytes,
    },
    secretKeys: config.secretKeys,
    operatorToken: config.operatorToken,
    limits: config.limits,
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
