/** Opens an engine by its name. An engine is loaded only when it is chosen. */
import { StoaError } from '../../../../core/errors.js';
import type { EngineName } from '../../../../core/settings/store-config.js';
import type { Engine, EngineConfig } from '../engine.js';

export async function openEngine(
  name: EngineName,
  config: EngineConfig,
  families: readonly string[],
): Promise<Engine> {
  switch (name) {
    case 'lmdb':
      return (await import('./lmdb.js')).openLmdb(config, families);
    case 'rocksdb':
      return (await import('./rocksdb/open.js')).openRocksdb(config, families);
    case 'memory':
      return (await import('./memory.js')).openMemory(config, families);
    default:
      throw new StoaError('invalid_config', `Unknown engine "${String(name)}".`, {
        fix: 'Use lmdb (the default), rocksdb or memory.',
      });
  }
}
