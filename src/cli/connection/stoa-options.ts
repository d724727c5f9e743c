/** Converts the configuration into the options of `openStoa`. */
import { resolve } from 'node:path';
import type { Config } from '../../core/settings/config.js';
import type { Embedder } from '../../find/vectors/embedder.js';
import { httpEmbedder } from '../../find/vectors/http-embedder.js';
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
    embedder: embedderOf(config),
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

/** The settings of an embedder are given together, or none of them is. */
function embedderOf({
  embedderUrl: url,
  embedderModel: model,
  embedderDimensions: dimensions,
  embedderToken: token,
  limits,
}: Config): Embedder | undefined {
  if (url === null || model === null || dimensions === null) return undefined;
  return httpEmbedder({ url, model, dimensions, token, limits });
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
