/** From the configuration to what `openStoa` takes. */
import type { Config } from '../config.js';
import type { StoaOptions } from '../index.js';

export function stoaOptions(config: Config, onError?: StoaOptions['onError']): StoaOptions {
  return {
    data: config.data,
    engine: config.engine ?? undefined,
    shards: config.shards ?? undefined,
    storeConfig: { sync_writes: config.syncWrites, max_open_files: config.maxOpenFiles, block_cache_bytes: config.blockCacheBytes },
    limits: config.limits,
    onError,
  };
}
